"""Number of threads that a forward pass uses on a CPU."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from embedwell_models.encoder.cpus import available_cpus


class _CallingThread(threading.local):
    single_threaded = False


class _Process:
    count: int | None = None  # as set_thread_count set it


_calling_thread, _process = _CallingThread(), _Process()


def set_thread_count(count: int) -> None:
    """Let each forward pass of this process use up to `count` threads, with torch as without.

    Raises ValueError for a count below 1.
    """
    if count < 1:
        raise ValueError(f"a forward pass needs a thread, not {count}")
    _process.count = count
    _set_torch_threads(count)


def process_thread_count() -> int:
    """Return the number that was set.

    By default, it is OMP_NUM_THREADS, or else the number of processors that the affinity mask and
    the quotas of cgroups allow.
    """
    return _process.count or _default_count()


def chosen_thread_count() -> int | None:
    """Return the number that was set; None by default."""
    return _process.count


def thread_count() -> int:
    """Return the process's number of threads, or 1 inside `single_threaded`."""
    return 1 if _calling_thread.single_threaded else process_thread_count()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Run the kernels that the calling thread starts on that thread only."""
    before, _calling_thread.single_threaded = _calling_thread.single_threaded, True
    try:
        yield
    finally:
        _calling_thread.single_threaded = before


@cache  # registers once
def use_one_torch_thread_after_fork() -> None:
    """Let torch compute on a single thread in processes that are forked from this one.

    A fork copies only the calling thread, so OpenMP would wait forever for the others of its team.
    The threads of the kernels start anew.
    """
    os.register_at_fork(after_in_child=lambda: _set_torch_threads(1))


def _set_torch_threads(count: int) -> None:
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(count)


@cache  # a forward pass is short
def _default_count() -> int:
    number = os.environ.get("OMP_NUM_THREADS", "")
    count = int(number) if number.isascii() and number.isdigit() else 0
    return count or available_cpus()
