"""Tests of ERNIE against transformers."""

from pathlib import Path

import pytest

from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import assert_refused

CASES = [Case("ernie"), Case("ernie", {"hidden_act": "relu", "layer_norm_eps": 0.05})]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_bits(tmp_path)


def test_a_table_of_tasks_is_refused(tmp_path: Path) -> None:
    write(Case("ernie"), tmp_path)
    assert_refused(tmp_path, use_task_id=True, is_decoder=True)
