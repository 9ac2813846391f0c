"""Tests of NomicBERT against transformers, in its own names and config, and in transformers'."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import NomicBertForMaskedLM

from embedwell_models import families
from embedwell_models.errors import ModelError
from embedwell_models.positions.schemes import Rotary
from tests.models.families.checkpoint import (
    SIZES,
    Case,
    assert_equal_states,
    assert_same_bits,
    write,
)
from tests.models.families.files import (
    Tensors,
    assert_refused,
    assert_same_weights,
    change,
    edit,
    loaded,
    rename,
)

CASES = [
    *(Case("nomic_bert", {"hidden_act": name}) for name in ("silu", "gelu", "gelu_new", "relu")),
    Case("nomic_bert", {"type_vocab_size": 1, "layer_norm_eps": 0.05}),
    Case("nomic_bert", {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}),
    Case(
        "nomic_bert",
        {
            "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 50.0},
            "max_position_embeddings": 24,
        },
    ),
    Case("nomic_bert", model=NomicBertForMaskedLM),
]
GATED = {**SIZES, "intermediate_size": 256}
OWN: dict[str, Any] = {
    "n_embd": 64,
    "n_layer": 3,
    "n_head": 4,
    "n_inner": 256,
    "n_positions": 128,
    "activation_function": "swiglu",
    "layer_norm_epsilon": 1e-12,
    "qkv_proj_bias": False,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "max_trained_positions": 24,
    "prenorm": False,
}
THEIRS = [
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "hidden_act", "layer_norm_eps", "rope_parameters", "head_dim"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.full(after=3)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[-2], tmp_path)
    assert_same_bits(tmp_path)


def test_the_names_of_transformers_lead_to_the_same_weights(tmp_path: Path) -> None:
    model = write(CASES[0], tmp_path)
    own = loaded(tmp_path)
    model.save_pretrained(tmp_path, save_original_format=False)
    assert_same_weights(loaded(tmp_path), own)


@pytest.mark.parametrize(
    ("theirs", "own"),
    [
        ({}, {}),
        ({"hidden_act": "gelu"}, {"activation_function": "geglu"}),
        ({"layer_norm_eps": 0.05}, {"layer_norm_epsilon": 0.05}),
        (CASES[5].options, {"rotary_emb_base": 50}),
        (CASES[6].options, {"rotary_emb_base": 50, "rotary_scaling_factor": 2.0}),
    ],
    ids=str,
)
def test_its_own_keys_say_the_same(
    theirs: dict[str, Any], own: dict[str, Any], tmp_path: Path
) -> None:
    model = write(Case("nomic_bert", theirs, GATED), tmp_path)
    edit(tmp_path, *THEIRS, **{**OWN, **own})
    assert families.read(tmp_path).config.max_positions == 128
    assert_equal_states(model, tmp_path)


@pytest.mark.parametrize("inner", [None, 200])
def test_the_width_of_the_gates_is_rounded_up(inner: int | None, tmp_path: Path) -> None:
    model = write(Case("nomic_bert", {}, GATED), tmp_path)
    edit(tmp_path, *THEIRS, **{**OWN, "n_inner": inner})
    assert_equal_states(model, tmp_path)


def test_a_plain_network_with_biases_is_a_rotary_roberta(tmp_path: Path) -> None:
    model = write(Case("jina_embeddings_v3", {"layer_norm_eps": 1e-12}), tmp_path)
    rename(tmp_path, {"mixer": "attn"})
    own = {
        "activation_function": "gelu",
        "n_inner": 96,
        "rotary_emb_base": 20_000,
        "mlp_fc1_bias": True,
    }
    biased = {"qkv_proj_bias": True, "mlp_fc2_bias": None, "model_type": "nomic_bert"}
    edit(tmp_path, *THEIRS, **{**OWN, **own, **biased})
    assert_equal_states(model, tmp_path)


def test_half_of_each_head_may_turn_in_pairs_of_neighbours(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, *THEIRS, **{**OWN, "rotary_emb_fraction": 0.5, "rotary_emb_interleaved": True})
    positions: Any = families.read(tmp_path).config.attention.positions
    assert (positions.dim, positions.interleaved) == (8, True)


def test_the_heads_of_pretraining_are_not_read(tmp_path: Path) -> None:
    model = write(Case("nomic_bert", {}, GATED), tmp_path)

    def pretrained(tensors: Tensors) -> Tensors:
        named = {f"bert.{name}": tensor for name, tensor in tensors.items()}
        return {**named, "cls.predictions.bias": torch.zeros(3)}

    change(tmp_path, pretrained)
    edit(tmp_path, *THEIRS, **OWN)
    assert_equal_states(model, tmp_path)


def test_what_its_own_code_can_do_besides_is_refused_by_name(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, *THEIRS, **OWN)
    assert_refused(
        tmp_path,
        prenorm=True,
        parallel_block=True,
        causal=True,
        use_rms_norm=True,
        scale_attn_weights=False,
        scale_attn_by_inverse_layer_idx=True,
        rotary_emb_scale_base=512,
        rotary_head_dim=True,
        moe_every_n_layers=2,  # with a gated activation
        activation_function="glu",
        rotary_emb_fraction=0.0,
    )


def test_a_bias_that_config_denies_is_refused(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    change(
        tmp_path, lambda parts: {**parts, "encoder.layers.0.attn.out_proj.bias": torch.zeros(64)}
    )
    with pytest.raises(ModelError, match="unknown tensor"):
        loaded(tmp_path)


def test_the_base_of_the_turns_has_its_default(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, "rope_parameters")
    assert families.read(tmp_path).config.attention.positions == Rotary(dim=16, base=1000.0)
