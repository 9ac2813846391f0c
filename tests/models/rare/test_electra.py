"""Tests of ELECTRA against transformers."""

from pathlib import Path

import pytest
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import assert_refused

CASES = [
    *(
        Case("electra", {"embedding_size": 32, "hidden_act": name})
        for name in ("gelu", "gelu_new", "relu", "silu", "quick_gelu")
    ),
    Case("electra", {"embedding_size": 64, "layer_norm_eps": 0.05}),
    Case("electra", {"embedding_size": 32}, model=ElectraForPreTraining),
    Case("electra", {"embedding_size": 96}, model=ElectraForMaskedLM),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[-1], tmp_path)
    assert_same_bits(tmp_path)


def test_other_positions_and_decoders_are_refused(tmp_path: Path) -> None:
    write(Case("electra"), tmp_path)
    assert_refused(tmp_path, position_embedding_type="relative_key", is_decoder=True)
