"""How long something is waited for: one timer for all that is."""

import asyncio
import time
from typing import Protocol


class Awaited(Protocol):
    """What may not come."""

    def expire(self) -> None:
        """What is done then."""


class Timeouts:
    """Gives up on what does not come in time, or up to a tenth of it later.

    A timer for each would cost more than to validate a body.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[Awaited, float] = {}  # the oldest first
        self._ticks = False

    def begin(self, awaited: Awaited) -> None:
        """It is waited for, if it was not already."""
        self._since.setdefault(awaited, time.monotonic())
        if not self._ticks:
            self._ticks = True
            self._sleep()

    def end(self, awaited: Awaited) -> None:
        """It has come, or nobody wants it any more."""
        self._since.pop(awaited, None)

    def _sleep(self) -> None:
        asyncio.get_running_loop().call_later(self._seconds / 10, self._tick)

    def _tick(self) -> None:
        oldest = time.monotonic() - self._seconds
        try:
            for awaited in [awaited for awaited, since in self._since.items() if since < oldest]:
                self.end(awaited)
                awaited.expire()
        finally:  # who cannot be given up on is no reason to wait for all others for ever
            self._ticks = bool(self._since)
            if self._ticks:
                self._sleep()
