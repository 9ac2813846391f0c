"""Tests of EuroBERT against transformers."""

from pathlib import Path

import pytest
from transformers import EuroBertForMaskedLM

from embedwell_models import families
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import assert_same_weights, edit, loaded

SPECIAL = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "mask")}
CASES = [
    Case("eurobert", {"num_key_value_heads": 2, **SPECIAL}),
    Case("eurobert", {"attention_bias": True, "mlp_bias": True, "rms_norm_eps": 0.05, **SPECIAL}),
    Case("eurobert", {"head_dim": 24, "hidden_act": "gelu", **SPECIAL}),
    Case("eurobert", {"rope_parameters": {"rope_type": "default", "rope_theta": 250.0}, **SPECIAL}),
    Case("eurobert", SPECIAL, model=EuroBertForMaskedLM),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_bits(tmp_path)


def test_the_older_key_of_the_base_is_read(tmp_path: Path) -> None:
    write(Case("eurobert", SPECIAL), tmp_path)
    before, weights = families.read(tmp_path).config, loaded(tmp_path)
    edit(tmp_path, "rope_parameters", rope_theta=10_000.0)
    assert families.read(tmp_path).config == before
    assert_same_weights(loaded(tmp_path), weights)


def test_an_unknown_scaling_is_refused(tmp_path: Path) -> None:
    write(Case("eurobert", SPECIAL), tmp_path)
    edit(tmp_path, "rope_parameters")
    with pytest.raises(ModelError, match="rope_type = 'proportional' is not supported"):
        edit(tmp_path, rope_scaling={"rope_type": "proportional"})
        families.read(tmp_path)
