"""Product quantisation: nearest codes, less loss with more of them, the same each time."""

import numpy as np
import pytest

from embedwell_models.compress.codes import product_quantize
from embedwell_models.errors import ModelError
from embedwell_models.tables.compressed import CodedTable
from embedwell_models.vectors import Floats
from tests.models.word_files import vectors

TABLE = vectors(3000, 12)


def loss(slices: int) -> float:
    """Mean square of the error of the codes."""
    return float(np.square(CodedTable(*product_quantize(TABLE, slices))[:] - TABLE).mean())


def test_each_code_is_that_of_the_nearest_vector() -> None:
    codes, codebooks = product_quantize(TABLE, 4)
    assert codes.shape == (3000, 4) and codes.dtype == np.uint8
    assert codebooks.shape == (4, 256, 3) and codebooks.dtype == np.float32
    for index, codebook in enumerate(codebooks):
        parts = TABLE[:, index::4]
        distances = np.square(parts[:, None].astype(float) - codebook[None]).sum(axis=2)
        chosen = np.take_along_axis(distances, codes[:, index, None].astype(int), axis=1)[:, 0]
        np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-6)


def test_more_codes_lose_less() -> None:
    losses = [loss(slices) for slices in (1, 3, 6, 12)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > 0.03 and losses[-1] < 1e-4


def test_the_same_rows_have_the_same_codes() -> None:
    many = vectors(40_000, 4)  # more than codebooks are made of
    (codes, codebooks), (again, others) = product_quantize(many, 2), product_quantize(many, 2)
    assert (codes.tobytes(), codebooks.tobytes()) == (again.tobytes(), others.tobytes())


@pytest.mark.parametrize("count", [1, 200, 256])
def test_rows_that_are_no_more_than_codes_stay_as_they_are(count: int) -> None:
    rows: Floats = TABLE[:count]
    codes, codebooks = product_quantize(rows, 3)
    assert codebooks.shape == (3, count, 4)
    np.testing.assert_array_equal(CodedTable(codes, codebooks)[:], rows)


def test_a_number_that_divides_no_dimensions_is_refused() -> None:
    with pytest.raises(
        ModelError, match=r"do not divide 12 dimensions; choose one of \[1, 2, 3, 4, 6"
    ):
        product_quantize(TABLE, 5)
