"""Folders of decision models that are not supported."""

from pathlib import Path

import pytest

from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import resolve


@pytest.mark.parametrize(
    ("name", "model"),
    [("marker_calibration.json", "Von"), ("encoder_config/config.json", "GLiNER2")],
)
def test_other_decision_models_are_refused_by_name(tmp_path: Path, name: str, model: str) -> None:
    folder = tmp_path / "model"
    (folder / name).parent.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "modernbert"}', encoding="utf-8")
    (folder / name).write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=f"it is a {model}: .*; supported decision models: Laya"):
        resolve(str(folder), cache=tmp_path / "cache")
