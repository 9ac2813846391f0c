"""Tests of Llama and Mistral against transformers."""

from pathlib import Path

import pytest

from models import families
from models.errors import ModelError
from tests.models.families.checkpoint import (
    Case,
    assert_equal_states,
    assert_refused,
    assert_same_bits,
    assert_same_weights,
    configure,
    write,
)

SCALINGS: list[dict[str, object]] = [
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
]
SCALED = [
    Case(
        "llama",
        {
            "rope_parameters": {"rope_theta": 500.0, **scaling},
            "max_position_embeddings": 24 if scaling["rope_type"] == "dynamic" else 64,
        },
    )
    for scaling in SCALINGS
]
MISTRAL = {"num_key_value_heads": 2, "sliding_window": 5}
CASES = [
    Case("llama", {"num_key_value_heads": 2, "rms_norm_eps": 0.05}),
    Case("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 24}),
    Case("llama", {"is_causal": False, "hidden_act": "gelu"}),
    Case("mistral", MISTRAL),
    Case("mistral", {**MISTRAL, "is_causal": False}),
    Case("mistral", {**MISTRAL, "sliding_window": None, "head_dim": 24}),
    *SCALED,
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


@pytest.mark.parametrize("kind", ["type", "rope_type"])
@pytest.mark.parametrize("case", SCALED, ids=str)
def test_the_older_keys_of_rotation_say_the_same(case: Case, kind: str, tmp_path: Path) -> None:
    write(case, tmp_path)
    today = families.read(tmp_path)
    scaling = dict(case.options["rope_parameters"])
    older = {kind: scaling.pop("rope_type"), **scaling}
    theta = older.pop("rope_theta")
    configure(tmp_path, "rope_parameters", rope_theta=theta, rope_scaling=older)
    assert families.read(tmp_path) == today


def test_a_checkpoint_with_a_head_and_stored_angles_has_the_same_weights(tmp_path: Path) -> None:
    write(Case("llama"), tmp_path)
    unused = ("lm_head.weight", "score.weight", "model.layers.0.self_attn.rotary_emb.inv_freq")
    assert_same_weights(tmp_path, lambda name: f"model.{name}", unused)


def test_a_window_that_is_not_told_is_that_of_transformers(tmp_path: Path) -> None:
    write(Case("mistral", MISTRAL), tmp_path)
    configure(tmp_path, "sliding_window")
    assert families.read(tmp_path).config.reaches == (4095,) * 3


OWN_CODE = {
    "architectures": ["LlamaBiModel"],
    "auto_map": {"AutoModel": "modeling_gritlm7b.MistralModel"},
}


@pytest.mark.parametrize("key", OWN_CODE)
def test_code_that_may_see_both_sides_is_refused_until_the_config_tells(
    key: str, tmp_path: Path
) -> None:
    write(Case("llama"), tmp_path)
    configure(tmp_path, **{key: OWN_CODE[key]})
    with pytest.raises(ModelError, match=f"{key} = .* is_causal"):
        families.read(tmp_path)
    configure(tmp_path, is_causal=False)
    assert not families.read(tmp_path).config.causal


@pytest.mark.parametrize(
    ("model_type", "options", "named"),
    [
        ("llama", {"sliding_window": 8}, "sliding_window"),
        ("llama", {"is_causal": "no"}, "is_causal"),
        ("llama", {"hidden_act": "xielu"}, "hidden_act = 'xielu'"),
        ("llama", {"rope_parameters": {"rope_type": "longrope"}}, "rope_type = 'longrope'"),
        ("mistral", {"layer_types": ["full_attention"] * 3}, "layer_types"),
    ],
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    model_type: str, options: dict[str, object], named: str, tmp_path: Path
) -> None:
    assert_refused(Case(model_type, {"num_key_value_heads": 2}), options, tmp_path, named)
