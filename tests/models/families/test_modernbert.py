"""Tests of ModernBERT against transformers."""

from pathlib import Path

import pytest

from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write

SPECIAL = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")}
CASES = [
    Case("modernbert", {"local_attention": 10, **SPECIAL}),
    Case("modernbert", {"norm_bias": True, "attention_bias": True, "mlp_bias": True, **SPECIAL}),
    Case("modernbert", {"global_attn_every_n_layers": 2, "local_attention": 6, **SPECIAL}),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)
