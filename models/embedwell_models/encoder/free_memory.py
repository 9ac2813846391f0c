"""Return of free memory to the system, which the allocator otherwise keeps."""

import ctypes
import os

_LIBRARY = ctypes.CDLL(None) if os.name == "posix" else None
_TRIM = getattr(_LIBRARY, "malloc_trim", lambda _: 0)  # glibc's number


def return_free_memory() -> None:
    """Return free memory to the system, such as that of a large request."""
    _TRIM(0)
