"""Admission control: refuse requests that would wait too long."""

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.engine.protocol.sizes import SIZE_CLASSES, size_class
from service.errors import Overloaded, TooLarge
from service.process.shared_counters import SharedCounters

_SMALL_TOKENS = (
    2048  # tokens, or characters where texts are read: a request of more can wait longer,
)
_LARGE_FACTOR = 5  # so many times as long
_TIMEOUT_MARGIN = 1.5  # times as long: texts differ, and so do the neighbours on a machine


class Admission:
    """Expected wait = tokens that are served before / tokens that the engine encodes in a second.

    The engine gives about half of its time to jobs that are due first (see its scheduler), so a
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
        """max_wait: seconds, for a request of at most 2048 tokens; for larger ones five times that.

        counters: shared counts of queued tokens of all HTTP processes.
        timeout: seconds after which a request is given up. measured: a rate that can be relied on
        to say that one will be; 0 while there is none.
        """
        self._max_wait, self._rate, self._counters = max_wait, rate, counters
        self._timeout, self._reliable_rate = timeout, reliable_rate
        self._queued_slot, self._class_slots = (
            counters.allocate(gauge=True),
            counters.allocate(SIZE_CLASSES, gauge=True),
        )

    @property
    def queued(self) -> int:
        """Tokens admitted and not computed yet, in the whole server."""
        return int(self._counters.total(self._queued_slot))

    @property
    def backlog(self) -> float:
        """Seconds to compute the whole queue; 0 while no rate is known."""
        return self._seconds(self.queued)

    def check(self, tokens: int) -> None:
        """Raise Overloaded if a request of so many tokens would wait too long.

        TooLarge if it would clearly time out without any wait.
        """
        wait = self._expected_wait(tokens) if tokens else 0
        limit = self._max_wait * (_LARGE_FACTOR if tokens > _SMALL_TOKENS else 1)
        max_wait = min(limit, _TIMEOUT_MARGIN * self._timeout - self._compute_seconds(tokens))
        if wait > max_wait:
            raise Overloaded(
                f"a request of this size would wait {wait:.1f} s; the limit is {max_wait:.1f} s",
                # When what waits now is done; not at once for all who were refused together.
                retry=wait * random.uniform(1, 1.5),  # noqa: S311
            )

    @contextmanager
    def admit(self, tokens: int) -> Iterator[None]:
        """Count tokens as queued for the time of the block; raises Overloaded with a retry time."""
        self.check(tokens)
        size = size_class(tokens)
        self._count(size, tokens)
        try:
            yield
        finally:
            self._count(size, -tokens)

    def _count(self, size: int, tokens: int) -> None:
        self._counters.row[self._queued_slot] += tokens
        self._counters.row[self._class_slots + size] += tokens

    def _compute_seconds(self, tokens: int) -> float:
        rate = self._reliable_rate()
        seconds = tokens / rate if rate else 0.0
        if seconds > _TIMEOUT_MARGIN * self._timeout:
            raise TooLarge(
                f"{tokens} tokens take the engine about {seconds:.0f} s, and a request is given up "
                f"after {self._timeout:.0f} s; send about {self._timeout * rate:.0f} at a time",
                code="too_many_tokens",
            )
        return seconds

    def _expected_wait(self, tokens: int) -> float:
        backlog = self.backlog
        if backlog <= self._max_wait:  # the usual case, checked cheaply
            return backlog
        slots = range(self._class_slots, self._class_slots + size_class(tokens) + 1)
        smaller = sum(self._counters.total(slot) for slot in slots)
        return self._seconds(min(self.queued, 2 * smaller))

    def _seconds(self, tokens: float) -> float:
        rate = self._rate()
        return tokens / rate if rate else 0.0
