"""Tests of RoBERTa, XLM-RoBERTa and CamemBERT against transformers."""

from pathlib import Path

import pytest
from transformers import RobertaForMaskedLM, RobertaForSequenceClassification

from embedwell_models import families
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import assert_refused, edit

CASES = [
    *(
        Case("roberta", {"hidden_act": name})
        for name in ("gelu", "gelu_new", "relu", "silu", "quick_gelu")
    ),
    Case("roberta", {"type_vocab_size": 1, "layer_norm_eps": 0.05}),
    Case("roberta", {"pad_token_id": 3, "max_position_embeddings": 44}),
    Case("roberta", {"num_labels": 2}, model=RobertaForSequenceClassification),
    Case("roberta", model=RobertaForMaskedLM),
    Case("camembert"),
    Case("xlm-roberta", {"max_position_embeddings": 42}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.full(after=3)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_bits(tmp_path)


def test_positions_begin_after_the_padding_token(tmp_path: Path) -> None:
    write(Case("roberta", {"max_position_embeddings": 44}), tmp_path)
    assert families.read(tmp_path).config.max_positions == 42
    edit(tmp_path, pad_token_id=3)
    assert families.read(tmp_path).config.max_positions == 40


def test_other_positions_and_decoders_are_refused(tmp_path: Path) -> None:
    write(Case("roberta"), tmp_path)
    assert_refused(tmp_path, position_embedding_type="relative_key", is_decoder=True)
