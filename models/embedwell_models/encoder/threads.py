"""Number of threads that the kernels use for a forward pass."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


class _CallingThread(threading.local):
    single_threaded = False


class _Process:
    threads = 0  # 0 for the default


_calling_thread = _CallingThread()


def set_thread_count(count: int) -> None:
    _Process.threads = count
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(count)


def max_thread_count() -> int:
    return _Process.threads or len(os.sched_getaffinity(0))


def thread_count() -> int:
    return 1 if _calling_thread.single_threaded else max_thread_count()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Run the kernels that the calling thread starts on that thread only."""
    before, _calling_thread.single_threaded = _calling_thread.single_threaded, True
    try:
        yield
    finally:
        _calling_thread.single_threaded = before


@cache  # registers once
def use_one_thread_after_fork() -> None:
    os.register_at_fork(after_in_child=lambda: set_thread_count(1))
