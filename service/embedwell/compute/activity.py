"""Whether a server is in use and runs, which its first process reads from the shared counters."""

import asyncio
import time
from collections.abc import Callable, Sequence

from embedwell.engine.wire.engine_state import (
    OPEN_REQUESTS,
    QUEUED_TOKENS,
    CounterSlot,
    SharedCounters,
)

_LAST_REQUEST, _HEARTBEAT = int(CounterSlot.LAST_REQUEST), int(CounterSlot.HEARTBEAT)
_INTERVAL = 1.0  # seconds between changes of a heartbeat


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


class Heartbeat:
    """Changes a shared counter as long as clients use this process and its event loop runs.

    The counter is negative while nobody uses it, so that neither process wakes up.
    """

    def __init__(
        self,
        row: "memoryview[float]",
        on_begin: Callable[[], None],
        is_busy: Callable[[], bool],
        interval: float = _INTERVAL,
    ) -> None:
        """row: shared counters of this process.

        on_begin: called when the counter begins to change.
        is_busy: returns whether this process works, though no client sends or receives.
        interval: seconds between changes.
        """
        self._row, self._on_begin, self._is_busy = row, on_begin, is_busy
        self._interval, self._beats = interval, False
        self.used = False
        """Whether a client has used the process since the counter changed."""

    def start(self) -> None:
        """Show that this process is ready for clients."""
        if self._is_busy():
            self.note_use()
        elif not self._beats:
            self._pause()

    def note_use(self) -> None:
        """Record that a client has connected, or has sent or received something."""
        self.used = True
        if not self._beats:
            self._beats = True
            self._beat()
            self._on_begin()

    def _pause(self) -> None:
        self._beats = False
        self._row[_HEARTBEAT] = -abs(self._row[_HEARTBEAT]) - 1

    def _beat(self) -> None:
        if self.used or self._is_busy():
            self.used = False
            self._row[_HEARTBEAT] = abs(self._row[_HEARTBEAT]) + 1
            asyncio.get_running_loop().call_later(self._interval, self._beat)
        else:
            self._pause()


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
