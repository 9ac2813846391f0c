"""Loads the compiled attention of attention.cpp, where it was built and can run."""

import ctypes
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

log = logging.getLogger(__name__)

LIBRARY = Path(__file__).with_name("libattention.so")
NAMES = {torch.float32: "attention_float32", torch.bfloat16: "attention_bfloat16"}


def load(dtype: torch.dtype, library: Path = LIBRARY) -> Callable[..., None] | None:
    """The function for a precision, or None with a line in the log that says why not."""
    if not library.exists():
        log.info("attention runs on torch: it was not compiled at installation")
        return None
    try:
        function = getattr(ctypes.CDLL(str(library)), NAMES[dtype])
        parallel = _parallel()
    except (OSError, AttributeError) as error:
        log.warning("attention runs on torch: %s", error)
        return None
    function.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int64] * 3
    function.restype = None
    return partial(function, parallel)


def _parallel() -> Any:
    # Looked up in torch's own libraries: it is their OpenMP runtime that must start the threads.
    # Another one, even of the same name, would be a second pool spinning on the same cores.
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    return ctypes.cast(ctypes.CDLL(str(library)).GOMP_parallel, ctypes.c_void_p)
