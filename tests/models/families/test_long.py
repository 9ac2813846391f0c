"""Tests of texts longer than a block of queries against transformers."""

from pathlib import Path

import pytest

from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write

pytestmark = pytest.mark.full  # a family that few use, with large tests
LENGTHS = (513, 7, 1100)
SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 48,
    "head_dim": 16,
}
TYPES = ["sliding_attention", "full_attention"]
CASES = [
    Case("mistral", {"sliding_window": 600, "is_causal": False}, SIZES),
    Case("gemma2", {"sliding_window": 520, "attn_logit_softcapping": 5.0}, SIZES),
    Case(
        "gemma3_text",
        {"sliding_window": 90, "use_bidirectional_attention": True, "layer_types": TYPES},
        SIZES,
    ),
    Case("bloom", {}, {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path, LENGTHS)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path, LENGTHS)
