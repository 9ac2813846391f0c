"""Tests of matrices that are computed when they are read."""

import numpy as np
import pytest

from embedwell_models.errors import ModelError
from embedwell_models.tables.layer_matrix import LayerMatrix


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
