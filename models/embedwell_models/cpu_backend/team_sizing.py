"""Choose how many threads compute a forward pass together, by the time that their team loses."""

import time
from collections.abc import Callable, Iterator
from math import inf

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
