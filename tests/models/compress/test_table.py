"""Fewer dimensions and 8-bit rows, by their definitions."""

import numpy as np
import pytest

from embedwell_models.compress.table import principal_directions, quantize_rows
from embedwell_models.errors import ModelError
from tests.models.word_files import vectors

TABLE = vectors(40_000, 12) * np.linspace(0.1, 2, 12, dtype=np.float32)


def test_the_projection_is_that_of_a_singular_value_decomposition() -> None:
    directions = principal_directions(TABLE, 5)
    expected = np.linalg.svd(TABLE.astype(np.float64), full_matrices=False)[2][:5].T
    np.testing.assert_allclose(directions @ directions.T, expected @ expected.T, atol=1e-5)
    np.testing.assert_allclose(directions.T @ directions, np.eye(5), atol=1e-5)


def test_all_dimensions_keep_every_inner_product() -> None:
    rows = TABLE[:50] @ principal_directions(TABLE, 12)
    np.testing.assert_allclose(rows @ rows.T, TABLE[:50] @ TABLE[:50].T, atol=1e-5)


def test_more_dimensions_than_the_table_has_are_refused() -> None:
    with pytest.raises(ModelError, match="13 dimensions are not possible; the table has 12"):
        principal_directions(TABLE, 13)


def test_a_row_is_rounded_to_a_127th_of_its_largest_value() -> None:
    rows = np.concatenate([TABLE[:100], np.zeros((1, 12), np.float32)])
    integers, scales = quantize_rows(rows)
    assert np.abs(integers).max(axis=1).tolist() == [127] * 100 + [0]
    errors = np.abs(integers * scales[:, None] - rows).max(axis=1)
    assert (errors <= scales * 0.5 + 1e-6).all()
