"""Tests of packing a text's outputs to one column of numbers."""

from typing import Any

import numpy as np
import pytest

from embedwell_models.outputs.text_outputs import (
    SparseVector,
    TextOutputs,
    common_entries,
    over_entries,
)

DENSE = np.array([0.5, -2], dtype=np.float32)
SPARSE = SparseVector(np.array([3, 250_001], dtype=np.int32), np.array([0.25, 7], dtype=np.float32))
EMPTY = SparseVector(np.array([], dtype=np.int32), np.array([], dtype=np.float32))
MULTI = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("sparse", [SPARSE, EMPTY, None])
@pytest.mark.parametrize("dense", [DENSE, None])
@pytest.mark.parametrize("multi", [MULTI, MULTI[:0], None])
def test_packed_outputs_are_restored(dense: Any, sparse: Any, multi: Any) -> None:
    packed = TextOutputs(dense, sparse, multi).pack()
    assert packed.dtype == np.float32 and packed.shape[1] == 1
    restored = TextOutputs.unpack(packed)
    assert_equal(restored.dense, dense)
    assert_equal(restored.multi, multi)
    assert (restored.sparse is None) == (sparse is None)
    if sparse is not None and restored.sparse is not None:
        assert restored.sparse.indices.dtype == np.int32
        assert_equal(restored.sparse.indices, sparse.indices)
        assert_equal(restored.sparse.weights, sparse.weights)


def assert_equal(restored: Any, original: Any) -> None:
    if original is None:
        assert restored is None
    else:
        np.testing.assert_array_equal(restored, original, strict=True)


def test_vectors_over_common_entries_have_the_same_products() -> None:
    other = SparseVector(np.array([0, 3], dtype=np.int32), np.array([5, 2], dtype=np.float32))
    vectors = [SPARSE, EMPTY, other]
    matrix = over_entries(vectors, common_entries(vectors))
    assert matrix.shape == (3, 3)
    assert (matrix @ matrix.T).tolist() == [[49.0625, 0, 0.5], [0, 0, 0], [0.5, 0, 29]]


def test_a_sparse_vector_has_what_is_not_zero() -> None:
    sparse = SparseVector.of(np.array([0, 0.5, 0, 2], dtype=np.float32))
    assert sparse.indices.tolist() == [1, 3] and sparse.weights.tolist() == [0.5, 2]
