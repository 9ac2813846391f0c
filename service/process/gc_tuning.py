"""Keeps the heap small, and the garbage collector from walking over what stays."""

import ctypes
import gc
import os

_LIBRARY = ctypes.CDLL(None) if os.name == "posix" else None
_TRIM = getattr(_LIBRARY, "malloc_trim", lambda _: 0)  # glibc's
_MALLOPT, _MMAP_THRESHOLD = getattr(_LIBRARY, "mallopt", lambda *_: 0), -3


def freeze() -> None:
    """Call once everything is loaded: a collection then looks at the objects of requests alone.

    What loading took and nobody holds goes back to the system: 160 MB of the precisions that an
    engine has tried.
    """
    gc.collect()
    gc.freeze()
    # A request makes no cycles that matter, so young objects can be looked at less often.
    gc.set_threshold(10_000, 20, 20)
    trim()


def map_large_blocks() -> None:
    """Let the allocator give each large block back as soon as it is free.

    By itself it comes to keep blocks of up to 32 MB for those that follow: glibc raises the size
    from which blocks are mapped with each one that is freed (man 3 mallopt).
    """
    _MALLOPT(_MMAP_THRESHOLD, 1 << 20)


def trim() -> None:
    """Give back to the system what a large request took, which the allocator would keep."""
    _TRIM(0)
