"""Admission control: reject requests that would wait too long."""

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from embedwell.engine.protocol.sizes import SIZE_CLASSES, size_class
from embedwell.errors import Overloaded, TooLarge
from embedwell.process.shared_counters import QUEUED_TOKENS, SharedCounters, Slot

_SMALL_TOKENS = 2048  # counts characters in the input queue
_LARGE_FACTOR = 5  # larger requests may wait this many times longer
# Plain integers index faster than an enum's members.
_LAST_USED = int(Slot.LAST_USED)
_TIMEOUT_MARGIN = 1.5  # tolerance of an expected time, because texts and the machine's load vary


class Admission:
    """Rejects requests by their expected wait: tokens served before / tokens per second.

    The engine spends about half of its time on jobs that are due first (see its scheduler). So a
    request waits for twice the tokens of requests no larger than itself, at most the whole queue.
    """

    def __init__(
        self,
        max_wait: float,
        rate: Callable[[], float],
        counters: SharedCounters,
        *,
        timeout: float = math.inf,
        reliable_rate: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """max_wait: seconds for a request of at most 2048 tokens; five times that for larger ones.

        rate: returns tokens per second; 0 if unknown.
        counters: count queued tokens in all processes.
        timeout: seconds after which a request is cancelled.
        reliable_rate: returns a rate to decide that a request will time out; 0 if there is none.
        """
        self._max_wait, self._rate, self._counters = max_wait, rate, counters
        self._timeout, self._reliable_rate = timeout, reliable_rate
        self._class_slots = counters.allocate(SIZE_CLASSES, gauge=True)  # of the first size class

    @property
    def queued_tokens(self) -> int:
        """Tokens admitted and not computed yet, in all processes."""
        return int(self._counters.total(QUEUED_TOKENS))

    @property
    def backlog_seconds(self) -> float:
        """Seconds to compute the whole queue; 0 if the rate is unknown."""
        return self._seconds(self.queued_tokens)

    def check(self, tokens: int) -> None:
        """Raise Overloaded if a request of this size would wait too long.

        Raises TooLarge if it would time out even without waiting.
        """
        wait = self._expected_wait(tokens) if tokens else 0
        limit = self._max_wait * (_LARGE_FACTOR if tokens > _SMALL_TOKENS else 1)
        max_wait = min(limit, _TIMEOUT_MARGIN * self._timeout - self._compute_seconds(tokens))
        if wait > max_wait:
            raise Overloaded(
                f"a request of this size would wait {wait:.1f} s, but the limit is "
                f"{max_wait:.1f} s; try again later",
                # The queue is done then; jitter prevents clients from retrying together.
                retry_after=wait * random.uniform(1, 1.5),  # noqa: S311
            )

    @contextmanager
    def admit(self, tokens: int) -> Iterator[None]:
        """Count tokens as queued during the block; raises Overloaded and TooLarge."""
        self.check(tokens)
        size = size_class(tokens)
        self._count(size, tokens)
        try:
            yield
        finally:
            self._count(size, -tokens)

    def _count(self, size: int, tokens: int) -> None:
        row = self._counters.row
        row[QUEUED_TOKENS] += tokens
        row[self._class_slots + size] += tokens
        row[_LAST_USED] = time.monotonic()

    def _compute_seconds(self, tokens: int) -> float:
        rate = self._reliable_rate()
        seconds = tokens / rate if rate else 0.0
        if seconds > _TIMEOUT_MARGIN * self._timeout:
            raise TooLarge(
                f"{tokens} tokens take about {seconds:.0f} s, but a request times out after "
                f"{self._timeout:.0f} s; send about {self._timeout * rate:.0f} tokens per "
                "request",
                code="too_many_tokens",
            )
        return seconds

    def _expected_wait(self, tokens: int) -> float:
        backlog = self.backlog_seconds
        if backlog <= self._max_wait:  # a cheap check for the usual case
            return backlog
        slots = range(self._class_slots, self._class_slots + size_class(tokens) + 1)
        smaller = sum(self._counters.total(slot) for slot in slots)
        return self._seconds(min(self.queued_tokens, 2 * smaller))

    def _seconds(self, tokens: float) -> float:
        rate = self._rate()
        return tokens / rate if rate else 0.0
