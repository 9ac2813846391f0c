"""Memory for arrays that the kernels read."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=np.generic)
_ALIGNMENT = 64  # bytes of a cache line, and of the widest register


def aligned_empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array without values whose memory begins at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + _ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned_copy(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return a row-major copy whose memory begins at a cache line."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
