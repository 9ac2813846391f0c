"""Matrices of several parts, and the numbers in them."""

import numpy as np
import pytest

from embedwell_models.checkpoint.quantized.layer import LayerMatrix, spread, unpack
from embedwell_models.errors import ModelError


def test_rows_are_those_of_the_decoded_matrix() -> None:
    whole = np.arange(12, dtype=np.float32).reshape(4, 3)
    matrix = LayerMatrix("a", (4, 3), whole.copy)
    rows = matrix.rows(1, 3)
    assert rows.shape == (2, 3)
    assert np.array_equal(rows.to_float32(), whole[1:3])
    assert np.array_equal(matrix[np.array([3, 0])], whole[[3, 0]])


def test_parts_of_another_shape_are_refused_by_name() -> None:
    matrix = LayerMatrix("the layer", (4, 3), lambda: np.zeros((3, 4), np.float32))
    with pytest.raises(ModelError, match="the layer: its parts have the shapes of"):
        matrix.to_float32()


def test_the_lowest_bits_of_a_word_come_first() -> None:
    words = np.array([[0x76543210]], np.int32)
    assert unpack(words, 4).tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert unpack(words, 8).tolist() == [[0x10, 0x32, 0x54, 0x76]]


@pytest.mark.parametrize("size", [(2, 4), (3, 3), (1, 6), (5, 1)])
def test_values_that_do_not_fit_a_matrix_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="values for a matrix of"):
        spread(np.ones(size, np.float32), (2, 6))
