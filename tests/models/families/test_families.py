"""Tests of the table of families."""

import json
from pathlib import Path

import pytest

from embedwell_models import families
from embedwell_models.errors import ModelError


@pytest.mark.parametrize("config", [{"model_type": "convnext"}, {}])
def test_another_family_is_refused_with_those_there_are(
    tmp_path: Path, config: dict[str, str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(
        ModelError, match=r"config\.json: model_type = .* supported: \[.*'bert'.*'modernbert'"
    ):
        families.read(tmp_path)
