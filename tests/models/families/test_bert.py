"""Tests of BERT against transformers."""

from pathlib import Path

import pytest
from transformers import BertForMaskedLM, BertForSequenceClassification
from transformers.activations import ACT2FN

from embedwell_models.config.layer_spec import ACTIVATIONS
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import assert_refused, assert_same_weights, edit, loaded, rename

CASES = [
    *(
        Case("bert", {"hidden_act": activation})
        for activation in sorted(ACTIVATIONS.keys() & ACT2FN.keys())
    ),
    Case("bert", {"type_vocab_size": 1, "layer_norm_eps": 0.05}),
    Case("bert", model=BertForMaskedLM),
    Case("bert", {"num_labels": 3}, model=BertForSequenceClassification),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.full(after=4)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@pytest.mark.parametrize("case", CASES[:2], ids=str)
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_the_names_of_tensorflow_lead_to_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    before = loaded(tmp_path)
    norms = {r"LayerNorm\.weight": "LayerNorm.gamma", r"LayerNorm\.bias": "LayerNorm.beta"}
    rename(tmp_path, {"^": "bert.", **norms})
    edit(tmp_path, "hidden_act", position_embedding_type="absolute")
    assert_same_weights(loaded(tmp_path), before)


def test_other_positions_and_decoders_are_refused(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_refused(tmp_path, position_embedding_type="relative_key", is_decoder=True)
