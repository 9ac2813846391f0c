"""Keeps the heap small, and the garbage collector from walking over what stays."""

import ctypes
import gc
import os

_LIBRARY = ctypes.CDLL(None) if os.name == "posix" else None
_TRIM = getattr(_LIBRARY, "malloc_trim", lambda _: 0)  # glibc's


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


def trim() -> None:
    """Give back to the system what a large request took, which the allocator would keep."""
    _TRIM(0)
