"""Tests of Longformer against transformers, with global attention in classifiers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LongformerForMaskedLM, LongformerForSequenceClassification

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import (
    Case,
    assert_equal_states,
    assert_same_bits,
    windows,
    write,
)
from tests.models.families.files import assert_refused, change, edit

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


CLASSIFIER = Case(
    "longformer",
    {"attention_window": [4, 8, 64], "max_position_embeddings": 1100},
    model=LongformerForSequenceClassification,
)
LONG = (3, 1100 - 2, 1, 17, 600, 9)


class WithGlobalAttention(torch.nn.Module):
    """A Longformer whose first token has global attention, as in its classifiers."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, **options: Any) -> Any:
        mask = torch.zeros_like(input_ids)
        mask[:, 0] = 1
        return self.encoder(input_ids, global_attention_mask=mask, **options)


def test_the_first_token_of_a_classifier_has_global_attention(tmp_path: Path) -> None:
    model = WithGlobalAttention(write(CLASSIFIER, tmp_path).base_model)
    assert_equal_states(model, tmp_path, LONG)


def test_a_text_of_a_classifier_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CLASSIFIER, tmp_path)
    assert_same_bits(tmp_path, LONG)


def test_a_classifier_without_the_projections_of_its_first_token_is_refused(
    tmp_path: Path,
) -> None:
    write(CLASSIFIER, tmp_path)
    change(tmp_path, lambda all_: {name: all_[name] for name in all_ if "global" not in name})
    with pytest.raises(ModelError, match="query_global"):
        weights.load(tmp_path, families.read(tmp_path))
