"""Folders of decision models that are not supported."""

from pathlib import Path

import pytest

from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import resolve


def test_von_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "modernbert"}', encoding="utf-8")
    (folder / "marker_calibration.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=r"it is a Von, .*; supported decision models: Laya"):
        resolve(str(folder), cache=tmp_path / "cache")
