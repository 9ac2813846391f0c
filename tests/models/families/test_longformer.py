"""Tests of Longformer without global attention against transformers."""

from pathlib import Path

import pytest
from transformers import LongformerForMaskedLM, LongformerForSequenceClassification

from embedwell_models import families
from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from tests.models.families.checkpoint import (
    Case,
    assert_equal_states,
    assert_same_bits,
    windows,
    write,
)
from tests.models.families.files import assert_refused, edit

CASES = [
    Case("longformer", {"attention_window": 6}),
    Case("longformer", {"attention_window": [4, 8, 64], "type_vocab_size": 1}),
    Case("longformer", {"layer_norm_eps": 0.05, "max_position_embeddings": 60}),
    Case("longformer", {"attention_window": 4}, model=LongformerForMaskedLM),
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


def test_positions_begin_after_the_padding_token(tmp_path: Path) -> None:
    write(CASES[2], tmp_path)
    assert families.read(tmp_path).config.max_positions == 58


def test_a_window_that_is_not_told_is_that_of_transformers(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, "attention_window")
    assert windows(tmp_path) == [256] * 3


def test_other_windows_are_refused_by_name(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    for window in ([4, 4], 5, [4, 4, 0], "4"):
        assert_refused(tmp_path, attention_window=window)
    assert_refused(tmp_path, is_decoder=True)


def test_rerankers_whose_first_token_sees_all_are_refused(tmp_path: Path) -> None:
    write(Case("longformer", {}, model=LongformerForSequenceClassification), tmp_path)
    with pytest.raises(ModelError, match="classification head of longformer"):
        ModelDescription.read(tmp_path)
