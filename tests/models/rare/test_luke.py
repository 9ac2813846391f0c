"""Tests of LUKE, of texts without entities, against transformers."""

from pathlib import Path

import pytest
from transformers import LukeForMaskedLM

from tests.models.families.checkpoint import (
    SIZES,
    Case,
    assert_equal_states,
    assert_same_bits,
    write,
)

ENTITIES = {**SIZES, "entity_vocab_size": 20, "entity_emb_size": 16}
CASES = [
    Case("luke", {"layer_norm_eps": 0.05}, ENTITIES),
    Case("luke", {"use_entity_aware_attention": False, "pad_token_id": 0}, ENTITIES),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_a_checkpoint_with_heads_is_read(tmp_path: Path) -> None:
    whole = write(Case("luke", {}, ENTITIES, model=LukeForMaskedLM), tmp_path)
    assert_equal_states(whole.luke, tmp_path)
