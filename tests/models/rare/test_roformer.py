"""Tests of RoFormer against transformers."""

from pathlib import Path

import pytest
import torch

from tests.models.families.checkpoint import (
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    write,
)
from tests.models.families.files import rename

CASES = [
    Case("roformer", {"layer_norm_eps": 0.05}),
    Case("roformer", {"embedding_size": 32, "hidden_act": "relu"}),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_a_checkpoint_with_a_head_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_when_renamed(tmp_path, lambda name: f"roformer.{name}", ("cls.predictions.bias",))


def test_a_table_of_sinusoids_is_not_needed(tmp_path: Path) -> None:
    model = write(CASES[0], tmp_path)
    added = {"encoder.embed_positions.weight": torch.zeros(1536, 16)}
    rename(tmp_path, lambda name: name, added)
    assert_equal_states(model, tmp_path)


def test_values_that_are_turned_are_refused(tmp_path: Path) -> None:
    assert_case_refused(CASES[0], {"rotary_value": True}, tmp_path)
