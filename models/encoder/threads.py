"""How many threads compute a pass."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _Caller(threading.local):
    alone = False


_caller = _Caller()


def count() -> int:
    """Those of torch, or one where the calling thread is alone."""
    return 1 if _caller.alone else torch.get_num_threads()


@contextmanager
def alone() -> Iterator[None]:
    """Keep the compiled passes of the calling thread to it: others run beside them."""
    before, _caller.alone = _caller.alone, True
    try:
        yield
    finally:
        _caller.alone = before
