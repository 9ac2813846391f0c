"""Heartbeat of an HTTP process, by which the first process notices that it hangs."""

import asyncio
from collections.abc import Callable

from embedwell.engine.wire.shared_counters import OPEN_REQUESTS, CounterSlot

_INTERVAL = 1.0  # seconds
_HEARTBEAT = int(CounterSlot.HEARTBEAT)


class Heartbeat:
    """Changes a shared counter as long as clients use this process and its event loop runs.

    The counter is negative while nobody uses it, so that neither process wakes up.
    """

    def __init__(
        self,
        row: "memoryview[float]",
        on_begin: Callable[[], None],
        always: bool = False,
        interval: float = _INTERVAL,
    ) -> None:
        """row: shared counters of this process.

        on_begin: called when the counter begins to change.
        always: whether this process also works without clients.
        interval: seconds between changes.
        """
        self._row, self._on_begin, self._always = row, on_begin, always
        self._interval, self._used, self._beats = interval, False, False

    def start(self) -> None:
        """Show that this process is ready for clients."""
        if self._always:
            self.note_use()
        elif not self._beats:
            self._pause()

    def note_use(self) -> None:
        """Record that a client has connected, or has sent or received something."""
        self._used = True
        if not self._beats:
            self._beats = True
            self._beat()
            self._on_begin()

    def _pause(self) -> None:
        self._beats = False
        self._row[_HEARTBEAT] = -abs(self._row[_HEARTBEAT]) - 1

    def _beat(self) -> None:
        if self._always or self._used or self._row[OPEN_REQUESTS]:
            self._used = False
            self._row[_HEARTBEAT] = abs(self._row[_HEARTBEAT]) + 1
            asyncio.get_running_loop().call_later(self._interval, self._beat)
        else:
            self._pause()
