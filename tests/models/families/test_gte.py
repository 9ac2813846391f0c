"""Tests of GTE v1.5 against transformers, in its own names and config, and in transformers'."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GteForSequenceClassification

from embedwell_models import families
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Rotary
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import (
    Tensors,
    assert_refused,
    assert_same_weights,
    change,
    edit,
    loaded,
)

OWN: dict[str, Any] = {
    "model_type": "new",
    "rope_theta": 50.0,
    "rope_scaling": None,
    "position_embedding_type": "rope",
    "layer_norm_type": "layer_norm",
    "logn_attention_scale": False,
    "logn_attention_clip1": False,
    "pack_qkv": True,
}
TURNS = {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}
CASES = [
    *(Case("gte", {"hidden_act": name}) for name in ("gelu", "gelu_new", "relu", "silu")),
    Case("gte", {"type_vocab_size": 0, "layer_norm_eps": 0.05}),
    Case("gte", {"type_vocab_size": 2, **TURNS}),
    Case(
        "gte",
        {
            "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 50.0},
            "max_position_embeddings": 24,
        },
    ),
    Case("gte", model=GteForSequenceClassification),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.full(after=3)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_bits(tmp_path)


def test_the_names_of_transformers_lead_to_the_same_weights(tmp_path: Path) -> None:
    model = write(CASES[0], tmp_path)
    own = loaded(tmp_path)
    model.save_pretrained(tmp_path, save_original_format=False)
    assert_same_weights(loaded(tmp_path), own)


def test_its_own_keys_and_prefix_say_the_same(tmp_path: Path) -> None:
    model = write(Case("gte", TURNS), tmp_path)
    change(tmp_path, lambda tensors: {f"new.{name}": part for name, part in tensors.items()})
    edit(tmp_path, "rope_parameters", **OWN)
    assert_equal_states(model, tmp_path)


def test_unpacked_queries_keys_and_values_are_read(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    packed = loaded(tmp_path)

    def unpack(tensors: Tensors) -> Tensors:
        found: Tensors = {}
        for name, tensor in tensors.items():
            parts = tensor.chunk(3) if "qkv_proj" in name else [tensor]
            for letter, part in zip("qkv", parts, strict=False):
                found[name.replace("qkv_proj", f"{letter}_proj")] = part.contiguous()
        return found

    change(tmp_path, unpack)
    assert_same_weights(loaded(tmp_path), packed)


def test_fixed_scaling_stretches_the_base_and_then_all_frequencies(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, "rope_parameters", **{**OWN, "rope_scaling": {"type": "ntk", "factor": 8.0}})
    config = families.read(tmp_path).config
    assert isinstance(config.attention.positions, Rotary)
    assert config.max_positions == JsonConfig(tmp_path / "config.json")["max_position_embeddings"]
    powers = np.arange(0, 16, 2) / 16
    expected = (50.0 * 8.0) ** -powers / 8.0 ** (2 / 16)
    for length in (1, 100_000):
        np.testing.assert_allclose(tables.frequencies(config.attention.positions, length), expected)


def test_fixed_scaling_turns_as_a_base_and_linear_scaling_do(tmp_path: Path) -> None:
    # The same frequencies in the words of transformers: base * factor, all divided by one number.
    both = {"rope_type": "linear", "factor": 8.0 ** (2 / 16), "rope_theta": 400.0}
    model = write(Case("gte", {"rope_parameters": both}), tmp_path)
    edit(tmp_path, "rope_parameters", **{**OWN, "rope_scaling": {"type": "ntk", "factor": 8.0}})
    assert_equal_states(model, tmp_path)


def test_what_its_own_code_can_do_besides_is_refused_by_name(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, "rope_parameters", **OWN)
    assert_refused(
        tmp_path,
        position_embedding_type="absolute",
        layer_norm_type="rms_norm",
        logn_attention_scale=True,
        is_decoder=True,
        rope_scaling={"type": "ntk", "factor": 2.0, "mixed_b": 0.6},
    )


def test_a_bias_of_the_gates_is_refused(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    bias = {"encoder.layer.0.mlp.up_gate_proj.bias": torch.zeros(192)}
    change(tmp_path, lambda tensors: {**tensors, **bias})
    with pytest.raises(ModelError, match="unknown tensor"):
        loaded(tmp_path)


def test_the_base_of_the_turns_has_its_default(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, "rope_parameters")
    assert families.read(tmp_path).config.attention.positions == Rotary(dim=16, base=160_000.0)
