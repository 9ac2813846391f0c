"""Keep the heap small and garbage collections short."""

import ctypes
import gc
import os

_LIBRARY = ctypes.CDLL(None) if os.name == "posix" else None
_TRIM = getattr(_LIBRARY, "malloc_trim", lambda _: 0)  # glibc's number
_MALLOPT, _MMAP_THRESHOLD = getattr(_LIBRARY, "mallopt", lambda *_: 0), -3


def settle_heap() -> None:
    """Exclude the objects that exist now from garbage collections; call it after loading.

    It also returns the memory that loading freed to the system: 160 MB after an engine has tried
    several precisions.
    """
    gc.collect()
    gc.freeze()
    # Requests create few reference cycles, so collections can be rarer.
    gc.set_threshold(10_000, 20, 20)
    return_free_memory()


def map_large_blocks() -> None:
    """Make the allocator return each large block to the system when it is freed.

    By default, each freed block raises glibc's threshold for mapping blocks, up to 32 MB, and glibc
    keeps smaller blocks (man 3 mallopt).
    """
    _MALLOPT(_MMAP_THRESHOLD, 1 << 20)


def return_free_memory() -> None:
    """Return free memory to the system, such as that of a large request."""
    _TRIM(0)
