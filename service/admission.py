"""Refuses work that would wait too long, at the door."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.errors import Overloaded

_WINDOW = 0.5  # seconds of uninterrupted work that make a measurement


class Admission:
    """Expected wait = tokens queued / tokens per second, as measured while busy."""

    def __init__(self, max_wait: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_wait, self._clock = max_wait, clock
        self._since, self._done = 0.0, 0
        self.queued = 0
        self.rate = 0.0  # tokens per second; 0: not measured yet

    @property
    def wait(self) -> float:
        """Seconds until a request that comes now would start."""
        return self.queued / self.rate if self.rate else 0.0

    @property
    def is_open(self) -> bool:
        return self.wait <= self._max_wait

    @contextmanager
    def admit(self, tokens: int) -> Iterator[None]:
        """Count tokens as queued for the time of the block; raises Overloaded with a retry time."""
        if not self.is_open:
            raise Overloaded(
                f"the queue is {self.wait:.1f} s long, the limit is {self._max_wait:.1f} s",
                retry=self.wait - self._max_wait,
            )
        if not self.queued:
            self._since, self._done = self._clock(), 0
        self.queued += tokens
        try:
            yield
            self._measure(tokens)
        finally:
            self.queued -= tokens

    def _measure(self, tokens: int) -> None:
        self._done += tokens
        elapsed = self._clock() - self._since
        if elapsed >= _WINDOW:
            self.rate = self._done / elapsed
            self._since, self._done = self._clock(), 0
