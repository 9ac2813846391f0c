"""Vectors of the tokens of several inputs: their choice, their rows and their lengths."""

import numpy as np
import pytest

from embedwell.bulk.token_vectors import TokenVectors
from embedwell_models.vectors import Floats


def some(*lengths: int) -> list[Floats]:
    return [np.full((n, 2), index, np.float32) for index, n in enumerate(lengths)]


def test_the_rows_of_all_inputs_follow_one_another() -> None:
    vectors = TokenVectors(some(2, 0, 1), 2)
    assert vectors.rows[:, 0].tolist() == [0, 0, 2] and vectors.lengths.tolist() == [2, 0, 1]
    assert TokenVectors([], 3).rows.shape == (0, 3)


@pytest.mark.parametrize(
    "chosen", [np.array([2, 0, 2]), [True, False, True]], ids=["index", "mask"]
)
def test_inputs_are_chosen_as_in_an_array(
    chosen: np.ndarray[tuple[int], np.dtype[np.intp]],
) -> None:
    expected = np.arange(3)[chosen]
    assert [v[0, 0] for v in TokenVectors(some(2, 1, 1), 2)[chosen].each] == expected.tolist()
