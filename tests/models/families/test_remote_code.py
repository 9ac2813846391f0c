"""Tests of checkpoints that name code of their own."""

import json
from pathlib import Path

import pytest

from embedwell_models import families
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import Case, write
from tests.models.families.files import edit

SPECIAL = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")}


def coded(folder: Path, model_type: str, code: dict[str, str]) -> Path:
    write(Case(model_type, SPECIAL), folder)
    edit(folder, auto_map=code)
    return folder


@pytest.mark.parametrize("model_type", ["bert", "roberta", "modernbert", "eurobert", "nomic_bert"])
def test_code_that_no_family_equals_is_refused(model_type: str, tmp_path: Path) -> None:
    code = {"AutoModel": "modeling_own.OwnModel", "AutoConfig": "configuration_own.OwnConfig"}
    with pytest.raises(ModelError, match=r"auto_map = .*OwnModel.*code of a model is not run"):
        families.read(coded(tmp_path, model_type, code))


@pytest.mark.parametrize("model_type", ["eurobert", "gte", "jina_embeddings_v3", "nomic_bert"])
def test_code_that_a_family_equals_is_not_needed(model_type: str, tmp_path: Path) -> None:
    for name in families.named(model_type).replaced_code:
        code = {"AutoModel": f"organisation/name--modeling.{name}"}
        assert families.read(coded(tmp_path, model_type, code)).config.family == model_type


def test_code_for_another_task_is_not_needed(tmp_path: Path) -> None:
    code = {"AutoModelForMaskedLM": "modeling_own.OwnBertForMaskedLM"}
    families.read(coded(tmp_path, "bert", code))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model_type": "plamo"}, "what PLaMo-Embedding-1B computes"),
        (
            {"model_type": "other", "architectures": ["PlamoBiModel"]},
            "what PLaMo-Embedding-1B computes",
        ),
        ({"model_type": "jasper_vl"}, "how Jasper reads texts"),
        (
            {"model_type": "other", "architectures": ["LlamaNemotronColEmbedVLModel"]},
            "into how many tiles it cuts an image",
        ),
    ],
    ids=str,
)
def test_a_model_that_only_its_code_describes_is_refused_with_that_reason(
    options: dict[str, object], named: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(options), encoding="utf-8")
    with pytest.raises(ModelError, match=f"only code of the model, which is not run, says {named}"):
        families.read(tmp_path)
