"""Number of threads that the kernels use for a forward pass."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


class _CallingThread(threading.local):
    single_threaded = False


_calling_thread = _CallingThread()
_chosen: list[int] = []  # the last number set


def set_thread_count(count: int) -> None:
    """Set the number of threads of a forward pass, also for torch."""
    torch.set_num_threads(count)
    _chosen[:] = [count]


def chosen_thread_count() -> int | None:
    """Return the number that was set last; None if none was."""
    return _chosen[0] if _chosen else None


def thread_count() -> int:
    """Return torch's number of threads, or 1 inside `single_threaded`."""
    return 1 if _calling_thread.single_threaded else torch.get_num_threads()


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
    """Let processes that are forked from this one compute on a single thread.

    A fork copies only the calling thread, so OpenMP would wait forever for the others of its team.
    """
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
