"""Whether a server is in use, which its first process reads from the shared counters."""

import time
from collections.abc import Sequence

from embedwell.engine.wire.shared_counters import (
    OPEN_REQUESTS,
    QUEUED_TOKENS,
    CounterSlot,
    SharedCounters,
)

_LAST_REQUEST = int(CounterSlot.LAST_REQUEST)


class Activity:
    """Counts the requests of an HTTP process that are open."""

    def __init__(self, counters: SharedCounters) -> None:
        self._row = counters.row

    def begin(self) -> None:
        """Record that a request has arrived."""
        self._row[OPEN_REQUESTS] += 1
        self._row[_LAST_REQUEST] = time.monotonic()

    def end(self) -> None:
        """Record that a request has ended."""
        self._row[OPEN_REQUESTS] -= 1
        self._row[_LAST_REQUEST] = time.monotonic()


def is_busy(counters: Sequence[SharedCounters]) -> bool:
    """Whether a request is open, or texts are queued; batches are queued without a request.

    counters: those of each model; the first ones also count the server's requests.
    """
    return counters[0].total(OPEN_REQUESTS) > 0 or any(
        each.total(QUEUED_TOKENS) > 0 for each in counters
    )


def last_use(counters: Sequence[SharedCounters]) -> float:
    """Return the time.monotonic of the latest begin or end of work; 0 without any."""
    used = [each.largest(CounterSlot.LAST_USED) for each in counters]
    return max(counters[0].largest(CounterSlot.LAST_REQUEST), *used)
