"""Tests of MPNet against transformers."""

from pathlib import Path

import pytest
from transformers import MPNetForMaskedLM

from embedwell_models import families
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import assert_refused

CASES = [
    *(
        Case("mpnet", {"hidden_act": name})
        for name in ("gelu", "gelu_new", "relu", "silu", "quick_gelu")
    ),
    Case("mpnet", {"pad_token_id": 4, "max_position_embeddings": 42, "layer_norm_eps": 0.05}),
    Case("mpnet", model=MPNetForMaskedLM),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_bits(tmp_path)


def test_distances_beyond_the_last_bucket_equal_transformers(tmp_path: Path) -> None:
    model = write(Case("mpnet", {"num_hidden_layers": 1}), tmp_path)
    assert_equal_states(model, tmp_path, (200, 7, 150))


def test_positions_begin_at_2_whatever_the_padding_token(tmp_path: Path) -> None:
    write(Case("mpnet", {"pad_token_id": 4, "max_position_embeddings": 42}), tmp_path)
    assert families.read(tmp_path).config.max_positions == 40


def test_another_number_of_buckets_is_refused(tmp_path: Path) -> None:
    write(Case("mpnet"), tmp_path)
    assert_refused(tmp_path, relative_attention_num_buckets=64)
