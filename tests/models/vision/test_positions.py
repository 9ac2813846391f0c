"""Positions of patches against torch's interpolation."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from embedwell_vision.positions import stretched_table

SQUARE = torch.randn(16, 3, generator=torch.Generator().manual_seed(5))
STRETCHED_SHAPES = [(4, 4), (3, 5), (5, 3), (16, 2), (1, 16), (1, 1), (2, 8), (40, 30)]


@pytest.mark.parametrize(("rows", "columns"), STRETCHED_SHAPES)
def test_a_stretched_table_is_that_of_torch(rows: int, columns: int) -> None:
    square = SQUARE.T.reshape(1, 3, 4, 4)
    stretched = F.interpolate(square, (rows, columns), mode="bilinear", antialias=True)
    expected = stretched.reshape(3, -1).T.numpy()
    found = stretched_table(SQUARE.numpy(), rows, columns)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_table_stretched_to_one_column_is_as_one_row() -> None:
    # torch mixes other vectors in an output of one column than in one of one row.
    turned = SQUARE.reshape(4, 4, 3).transpose(0, 1).reshape(16, 3).numpy()
    found = stretched_table(SQUARE.numpy(), 16, 1)
    np.testing.assert_allclose(found, stretched_table(turned, 1, 16), atol=1e-6)
