"""Tests of DistilBERT against transformers."""

from pathlib import Path

import pytest
from transformers import DistilBertForMaskedLM, DistilBertForSequenceClassification

from embedwell_models import families
from embedwell_models.positions.schemes import Sinusoidal
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import assert_refused

SIZES = {"vocab_size": 99, "dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 96}
CASES = [
    *(
        Case("distilbert", {"activation": name}, SIZES)
        for name in ("gelu", "gelu_new", "relu", "silu", "quick_gelu")
    ),
    Case("distilbert", {}, SIZES, model=DistilBertForMaskedLM),
    Case("distilbert", {}, SIZES, model=DistilBertForSequenceClassification),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_bits(tmp_path)


def test_a_sinusoidal_table_says_so_and_is_the_one_of_the_file(tmp_path: Path) -> None:
    model = write(Case("distilbert", {"sinusoidal_pos_embds": True}, SIZES), tmp_path)
    assert families.read(tmp_path).config.input_positions == Sinusoidal()
    assert_equal_states(model, tmp_path)


def test_a_table_that_is_neither_learned_nor_sinusoidal_is_refused(tmp_path: Path) -> None:
    write(Case("distilbert", {}, SIZES), tmp_path)
    assert_refused(tmp_path, sinusoidal_pos_embds="rotary")
