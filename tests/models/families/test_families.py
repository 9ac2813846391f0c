"""Tests of the table of families."""

import json
from pathlib import Path

import pytest

from models import families
from models.errors import ModelError


def test_a_colbert_of_the_second_version_is_refused_by_name(tmp_path: Path) -> None:
    config = {"model_type": "bert", "architectures": ["HF_ColBERT"]}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match=r"HF_ColBERT: a model of late interaction \(ColBERT v2\)"):
        families.read(tmp_path)


@pytest.mark.parametrize("config", [{"model_type": "convnext"}, {}])
def test_another_family_is_refused_with_those_there_are(
    tmp_path: Path, config: dict[str, str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(
        ModelError, match=r"config\.json: model_type = .* supported: \[.*'bert'.*'modernbert'"
    ):
        families.read(tmp_path)
