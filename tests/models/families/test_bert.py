"""Tests of BERT against transformers."""

from pathlib import Path

import pytest

from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write

CASES = [
    Case("bert", {"hidden_act": activation}) for activation in ("gelu", "gelu_new", "relu", "silu")
] + [Case("bert", {"type_vocab_size": 1, "layer_norm_eps": 0.05})]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)
