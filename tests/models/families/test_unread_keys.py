"""Keys of config.json that no family reads."""

import json
import logging
from pathlib import Path

import pytest
from transformers import AutoConfig

from embedwell_models import families
from embedwell_models.embedder import Embedder
from tests.models.families.checkpoint import Case
from tests.models.families.every import EVERY
from tests.models.tiny import write_bert

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
