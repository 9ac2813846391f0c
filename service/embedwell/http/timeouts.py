"""One timer for all objects with a time limit."""

import asyncio
import time
from typing import Protocol


class Expirable(Protocol):
    """An object with a time limit."""

    def expire(self) -> None:
        """Handle the end of the time limit."""


class Timeouts:
    """Calls expire() of every object that has not ended in time, up to 10% of the time later.

    A timer for each request would cost more than the validation of its body.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[Expirable, float] = {}  # oldest first
        self._ticks = False

    def begin(self, waiting: Expirable) -> None:
        """Start the time limit, unless it runs already."""
        self._since.setdefault(waiting, time.monotonic())
        if not self._ticks:
            self._ticks = True
            self._sleep()

    def end(self, waiting: Expirable) -> None:
        """Stop the time limit."""
        self._since.pop(waiting, None)

    def _sleep(self) -> None:
        asyncio.get_running_loop().call_later(self._seconds / 10, self._tick)

    def _tick(self) -> None:
        oldest = time.monotonic() - self._seconds
        try:
            for waiting in [waiting for waiting, since in self._since.items() if since < oldest]:
                self.end(waiting)
                waiting.expire()
        finally:  # an exception of one object must not stop the timer of all others
            self._ticks = bool(self._since)
            if self._ticks:
                self._sleep()
