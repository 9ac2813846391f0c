"""Tests of GPT-2 against transformers."""

from pathlib import Path

import pytest

from embedwell_models import families
from tests.models.families.checkpoint import (
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    write,
)
from tests.models.families.files import edit

SIZES = {"vocab_size": 99, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 64}
CASES = [
    *(
        Case("gpt2", {"activation_function": activation}, SIZES)
        for activation in ("gelu_new", "gelu", "relu", "silu")
    ),
    Case("gpt2", {"n_inner": 96, "layer_norm_epsilon": 0.05, "is_causal": False}, SIZES),
    Case("gpt2", {"scale_attn_weights": False}, SIZES),
]
REFUSED: list[dict[str, object]] = [
    {"scale_attn_by_inverse_layer_idx": True},
    {"add_cross_attention": True},
    {"architectures": ["GPT2BiModel"]},
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
@pytest.mark.full(after=2)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_a_checkpoint_with_a_head_and_stored_masks_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    unused = ("lm_head.weight", "transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias")
    assert_same_when_renamed(tmp_path, lambda name: f"transformer.{name}", unused)


def test_the_usual_names_of_the_sizes_say_the_same(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    expected = families.read(tmp_path)
    usual = {
        "hidden_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
    }
    edit(tmp_path, "n_embd", "n_layer", "n_head", "n_positions", **usual)
    assert families.read(tmp_path) == expected


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    options: dict[str, object], tmp_path: Path
) -> None:
    assert_case_refused(CASES[0], options, tmp_path)
