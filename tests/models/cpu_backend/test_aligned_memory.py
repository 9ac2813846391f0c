"""Tests of memory for the kernels."""

import numpy as np
import pytest

from embedwell_models.cpu_backend.aligned_memory import aligned_copy, aligned_empty


@pytest.mark.parametrize("dtype", [np.float32, np.uint16, np.int8])
def test_a_copy_is_row_major_and_begins_at_a_cache_line(dtype: type[np.generic]) -> None:
    values = np.arange(210).astype(dtype).reshape(7, 30).T
    for copy in (aligned_copy(values), aligned_copy(values[1:])):
        assert copy.ctypes.data % 64 == 0 and copy.flags.c_contiguous
    assert np.array_equal(aligned_copy(values), values)


def test_an_array_without_values_has_the_shape_asked_for() -> None:
    assert aligned_empty((0, 4), np.float32).shape == (0, 4)
    assert aligned_empty((), np.float32).shape == ()
