"""Tests of GPT-J against transformers."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.models.families.checkpoint import (
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    write,
)
from tests.models.families.compiled import assert_kernels_are_faithful, needs_kernels
from tests.models.tiny import VOCABULARY

SIZES = {"vocab_size": 99, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 64}
COMPILED = {**SIZES, "vocab_size": len(VOCABULARY), "n_head": 2, "n_inner": 128}
CASES = [
    Case("gptj", {"rotary_dim": 8}, SIZES),
    Case("gptj", {"rotary_dim": 16, "is_causal": False, "layer_norm_epsilon": 0.05}, SIZES),
    Case("gptj", {"rotary_dim": 4, "n_inner": 96, "activation_function": "relu"}, SIZES),
]
REFUSED: list[dict[str, object]] = [{"architectures": ["GPTJBiModel"]}]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


@needs_kernels
@pytest.mark.parametrize("case", CASES[:2], ids=str)
def test_the_kernels_alone_are_faithful_in_every_precision(case: Case, tmp_path: Path) -> None:
    assert_kernels_are_faithful(write(replace(case, sizes=COMPILED), tmp_path), tmp_path)


def test_a_checkpoint_with_a_head_and_stored_masks_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    masks = ("transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias")
    unused = ("lm_head.weight", "lm_head.bias", *masks)
    assert_same_when_renamed(tmp_path, lambda name: f"transformer.{name}", unused)


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    options: dict[str, object], tmp_path: Path
) -> None:
    assert_case_refused(CASES[0], options, tmp_path)
