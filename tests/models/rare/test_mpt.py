"""Tests of MPT against transformers."""

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

SIZES = {"vocab_size": 99, "d_model": 64, "n_layers": 3, "n_heads": 4, "max_seq_len": 64}
CASES = [
    Case("mpt", {}, SIZES),
    Case("mpt", {"n_heads": 6, "d_model": 48, "layer_norm_epsilon": 0.05}, SIZES),
    Case("mpt", {"attn_config": {"softmax_scale": 0.1}}, SIZES),
]
REFUSED: list[dict[str, object]] = [
    {"no_bias": False},
    {"is_causal": False},
    {"norm_type": "rmsnorm"},
]
REFUSED_IN_ATTENTION: list[dict[str, object]] = [
    {"attn_type": "multiquery_attention"},
    {"clip_qkv": 6.0},
    {"prefix_lm": True},
    {"qk_ln": True},
    {"attn_uses_sequence_id": True},
    {"alibi": False},
    {"alibi_bias_max": 16},
    {"rope": True},
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
@pytest.mark.full(after=2)
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_a_checkpoint_with_a_head_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_when_renamed(tmp_path, lambda name: f"transformer.{name}", ("lm_head.weight",))


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    options: dict[str, object], tmp_path: Path
) -> None:
    assert_case_refused(CASES[0], options, tmp_path)


@pytest.mark.parametrize("options", REFUSED_IN_ATTENTION, ids=str)
def test_an_option_of_the_attention_that_is_not_implemented_is_refused_by_name(
    options: dict[str, object], tmp_path: Path
) -> None:
    assert_case_refused(CASES[0], {"attn_config": options}, tmp_path, next(iter(options)))
