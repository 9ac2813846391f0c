"""Keep the heap small and garbage collections short."""

import ctypes
import gc
import os

from embedwell_models.encoder.device import return_free_memory

_LIBRARY = ctypes.CDLL(None) if os.name == "posix" else None
_TRIM_DELAY = 0.1  # seconds
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


class FreeMemory:
    """Returns free memory to the system at most ten times a second, as it takes milliseconds."""

    def __init__(self) -> None:
        self._scheduled = False

    def return_soon(self) -> None:
        """Return free memory in a tenth of a second, for all requests that end until then."""
        if not self._scheduled:
            self._scheduled = True
            import asyncio  # engines have no event loop

            asyncio.get_running_loop().call_later(_TRIM_DELAY, self._return)

    def _return(self) -> None:
        self._scheduled = False
        return_free_memory()
