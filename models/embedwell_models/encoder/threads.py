"""Number of threads of a forward pass on a CPU: the most that it may use, and what is fastest."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from math import inf

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


_SOME_SECONDS, _SOME_PASSES = 0.05, 2  # of passes that say what a size costs
_LOSSY = 1.5  # processor time that a team was promised, over what its threads had
_BETTER = 0.95  # cost of another size that is worth the change
_FIRST_PAUSE, _MAX_PAUSE = 0.1, 2.0  # seconds after a trial of another size in vain
_MIN_PAUSES = 10  # as long as the trial, so that trials take a tenth of the time at most


class TeamSizing:
    """Number of threads of the next pass: fewer while other programs use the processors.

    The threads of a team wait for each other many times in a pass. If one of them has to wait for
    its processor, all of them do, and fewer threads, or a single one, may end the pass earlier. The
    cost of a size is the duration of its passes over the processor time of all of their threads:
    1/size at best. Where a team loses much, a smaller size is tried for a few passes, and the next
    larger one from time to time. Vectors do not depend on the size.
    """

    def __init__(self, count: int, clock: Callable[[], float] = time.monotonic) -> None:
        """count: threads of a team that loses nothing."""
        self._sizes, self._clock = [*_sizes(count)], clock
        self._index, self._cost = 0, _Cost()
        self._trial: tuple[int, _Cost] | None = None  # of the size of another index
        self._trial_was_smaller, self._step = False, 1  # in sizes, to the next smaller trial
        self._pause, self._next_trial = _FIRST_PAUSE, clock()

    @property
    def size(self) -> int:
        """Threads of the next pass."""
        return self._sizes[self._trial[0] if self._trial else self._index]

    def observe(self, size: int, elapsed: float, computed: float) -> None:
        """Record a pass of the current size.

        size: threads that took part, which may be fewer.
        elapsed: its duration in seconds. computed: processor time of all threads in seconds.
        """
        if self._trial is None:
            self._cost.add(size, elapsed, computed)
            if self._cost.is_known and self._clock() >= self._next_trial:
                self._begin_trial()
            return
        cost = self._trial[1]
        cost.add(size, elapsed, computed)
        if cost.is_known:
            self._end_trial()

    def _begin_trial(self) -> None:
        last = len(self._sizes) - 1
        smaller, larger = self._index < last and self._cost.loss > _LOSSY, self._index > 0
        if smaller and larger:
            smaller = not self._trial_was_smaller
        if smaller or larger:
            index = min(self._index + self._step, last) if smaller else self._index - 1
            self._trial, self._trial_was_smaller = (index, _Cost()), smaller

    def _end_trial(self) -> None:
        assert self._trial is not None
        index, cost = self._trial
        self._trial = None
        if cost.ratio < _BETTER * self._cost.ratio:
            self._index, self._cost, self._pause = index, cost, _FIRST_PAUSE
            self._next_trial, self._step = self._clock(), 1
            return
        self._next_trial = self._clock() + max(self._pause, _MIN_PAUSES * cost.elapsed)
        self._pause = min(2 * self._pause, _MAX_PAUSE)
        if index > self._index:  # perhaps a much smaller team is better
            self._step = 2 * self._step if index + 1 < len(self._sizes) else 1


class _Cost:
    """Times of the latest passes of a size, in seconds.

    elapsed: their durations.
    """

    def __init__(self) -> None:
        self._passes = 0
        self._promised = self.elapsed = self._computed = 0.0

    @property
    def is_known(self) -> bool:
        return self._passes >= _SOME_PASSES and self.elapsed >= _SOME_SECONDS

    @property
    def ratio(self) -> float:
        return self.elapsed / self._computed if self._computed else inf

    @property
    def loss(self) -> float:
        return self._promised / self._computed if self._computed else inf

    def add(self, size: int, elapsed: float, computed: float) -> None:
        if self.elapsed > 2 * _SOME_SECONDS:  # the past counts half
            self._promised, self.elapsed, self._computed = (
                each / 2 for each in (self._promised, self.elapsed, self._computed)
            )
        self._passes += 1
        self._promised += size * elapsed
        self.elapsed += elapsed
        self._computed += computed


def _sizes(count: int) -> Iterator[int]:
    while count > 1:
        yield count
        count = count * 3 // 4
    yield 1
