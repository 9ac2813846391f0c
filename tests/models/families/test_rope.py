"""Tests of which of several rotary settings count: those that transformers takes."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModel

from embedwell_models import families
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import Case, assert_equal_states, write
from tests.models.families.files import edit

LINEAR = {"rope_type": "linear", "factor": 4.0}
TURNS = {"rope_type": "default", "rope_theta": 500.0}
BY_LAYER = {
    "full_attention": {"rope_type": "default", "rope_theta": 500.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
}
ORIGINAL = "original_max_position_embeddings"
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, ORIGINAL: 16}
LLAMA3 = {**YARN, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONGROPE = {
    **{"rope_type": "longrope", "rope_theta": 500.0, "factor": 4.0, ORIGINAL: 16},
    **{"short_factor": [1.0, 1.5] * 4, "long_factor": [2.0, 3.0] * 4},
}
BY_LENGTH = {"full_attention": LONGROPE}
HEADS = {"num_key_value_heads": 2}
SPECIAL = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")}
MODERNBERT = {"local_attention": 10, **SPECIAL}
GEMMA3 = {
    **{"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 6, **SPECIAL},
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("llama", {}, {"rope_scaling": LINEAR, "rope_parameters": TURNS}),
    ("qwen3", HEADS, {"rope_scaling": LINEAR, "rope_parameters": TURNS, "rope_theta": 70.0}),
    ("qwen3", HEADS, {"rope_scaling": {**LINEAR, "rope_theta": 90.0}, "rope_parameters": TURNS}),
    ("qwen3", HEADS, {"rope_scaling": {}, "rope_parameters": TURNS}),
    ("nomic_bert", {}, {"rope_scaling": LINEAR, "rope_parameters": TURNS}),
    ("gpt_neox", {}, {"rope_scaling": LINEAR, "rope_parameters": TURNS, "rotary_pct": 0.5}),
    ("modernbert", MODERNBERT, {"rope_scaling": LINEAR, "rope_parameters": BY_LAYER}),
    ("modernbert", MODERNBERT, {"rope_parameters": None, "rope_theta": 70.0}),
    ("gemma3_text", GEMMA3, {"rope_scaling": LINEAR, "rope_parameters": BY_LAYER}),
    (
        "gemma3_text",
        GEMMA3,
        {"rope_parameters": {"full_attention": LINEAR}, "rope_local_base_freq": 70.0},
    ),
    ("qwen3", HEADS, {"partial_rotary_factor": 0.5}),
    ("llama", {}, {"rope_parameters": {**TURNS, "partial_rotary_factor": 0.5}}),
    ("modernbert", MODERNBERT, {"partial_rotary_factor": 0.5}),
    ("gpt_neox", {}, {"rope_parameters": {**TURNS, "partial_rotary_factor": 0.5}}),
    *(("llama", {}, {"rope_parameters": each, ORIGINAL: 32}) for each in (YARN, LLAMA3, LONGROPE)),
    ("llama", {}, {"rope_scaling": {**LONGROPE, "attention_factor": 0.8}}),
    ("gemma3_text", GEMMA3, {"rope_parameters": {**BY_LAYER, **BY_LENGTH}, ORIGINAL: 32}),
]


@pytest.mark.parametrize(("model_type", "options", "changed"), CASES, ids=str)
def test_the_settings_that_count_are_those_of_transformers(
    model_type: str, options: dict[str, Any], changed: dict[str, Any], tmp_path: Path
) -> None:
    write(Case(model_type, options), tmp_path)
    edit(tmp_path, **changed)
    model = AutoModel.from_pretrained(tmp_path, attn_implementation="eager")
    assert_equal_states(model, tmp_path)


@pytest.mark.parametrize("kind", ["linear", "dynamic"])
def test_a_share_of_a_head_that_transformers_cannot_turn_is_refused(
    kind: str, tmp_path: Path
) -> None:
    write(Case("qwen3", HEADS), tmp_path)
    turns = {**TURNS, "rope_type": kind, "factor": 2.0, "partial_rotary_factor": 0.5}
    edit(tmp_path, rope_parameters=turns)
    with pytest.raises(ModelError, match=r"partial_rotary_factor = 0\.5 is not supported"):
        families.read(tmp_path)


ESM = {"position_embedding_type": "rotary", "pad_token_id": 1}
ODD: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("esm", ESM, {"hidden_size": 36}),
    ("roformer", {}, {"hidden_size": 36}),
    ("gte", {}, {"hidden_size": 36}),
    ("jina_embeddings_v3", {}, {"hidden_size": 36}),
    ("nomic_bert", {}, {"hidden_size": 36, "head_dim": 9}),
    ("modernbert", MODERNBERT, {"hidden_size": 36}),
    ("llama", HEADS, {"head_dim": 9}),
    ("gemma3_text", GEMMA3, {"head_dim": 9}),
    ("gpt_neox", {}, {"rope_parameters": {**TURNS, "partial_rotary_factor": 0.2}}),
    ("gpt_neox", {}, {"rope_parameters": {**TURNS, "partial_rotary_factor": 1.5}}),
]


@pytest.mark.parametrize(("model_type", "options", "changed"), ODD, ids=str)
def test_features_that_are_not_pairs_are_refused_by_their_number(
    model_type: str, options: dict[str, Any], changed: dict[str, Any], tmp_path: Path
) -> None:
    write(Case(model_type, options), tmp_path)
    edit(tmp_path, **changed)
    with pytest.raises(
        ModelError, match=r"config\.json: rotary positions of \d+ features in heads"
    ):
        families.read(tmp_path)
