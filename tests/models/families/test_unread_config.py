"""Keys of config.json that no family reads, and checkpoints that name code of their own."""

import json
import logging
from pathlib import Path

import pytest
from transformers import AutoConfig

from embedwell_models import families
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import Case, write
from tests.models.families.every import EVERY
from tests.models.families.files import edit
from tests.models.tiny import write_bert

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


_NAMES = [
    *("clip", "metaclip_2", "siglip", "siglip2", "qwen2_vl", "qwen3_vl", "embedding_gemma2"),
    *("canine", "funnel", "gemma3", "mistral3", "mobilebert"),
]
# Of the published sizes; transformers' defaults are of two different models.
_OPTIONS = {
    "qwen2_vl": {"vision_config": {"hidden_size": 8192}},
    "qwen3_vl": {"vision_config": {"out_hidden_size": 4096}},
}
OTHERS = [Case(name, _OPTIONS.get(name, {}), {}) for name in _NAMES]


@pytest.mark.parametrize("case", [*EVERY, *OTHERS], ids=str)
def test_every_key_that_transformers_writes_is_read_or_known(case: Case, tmp_path: Path) -> None:
    options = {**case.sizes, **case.options}
    config = AutoConfig.for_model(case.model_type, **options).to_dict()
    (tmp_path / "config.json").write_text(json.dumps(config, default=str), encoding="utf-8")
    assert families.read(tmp_path).unread_keys == ()


@pytest.mark.parametrize(
    ("model_type", "above"),
    [
        ("clip", "text_config"),
        ("siglip", "vision_config"),
        ("qwen3_vl", "text_config"),
        ("llama", "rope_parameters"),
        ("mpt", "attn_config"),
    ],
)
def test_an_unknown_key_inside_of_another_is_told(
    model_type: str, above: str, tmp_path: Path
) -> None:
    config = AutoConfig.for_model(model_type, **_OPTIONS.get(model_type, {})).to_dict()
    config[above] = {**config[above], "new_gate": True, "another_gate": None}
    (tmp_path / "config.json").write_text(json.dumps(config, default=str), encoding="utf-8")
    assert families.read(tmp_path).unread_keys == (f"{above}.new_gate",)


def test_a_key_of_decoders_is_unknown_to_an_encoder(tmp_path: Path) -> None:
    config = {**AutoConfig.for_model("bert").to_dict(), "is_causal": True}
    (tmp_path / "config.json").write_text(json.dumps(config, default=str), encoding="utf-8")
    assert families.read(tmp_path).unread_keys == ("is_causal",)


def test_an_unknown_key_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_bert(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    changed = {**config, "new_gate": True, "another_gate": None, "hidden_dropout_prob": 0.5}
    path.write_text(json.dumps(changed), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        Embedder.load(tmp_path, device="cpu", dtype="float32")
    (record,) = [each for each in caplog.records if "not known" in each.message]
    assert "config.json: new_gate: not known" in record.message
