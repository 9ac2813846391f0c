"""Limits of an HTTP process: time of clients, size of bodies, memory, and number of connections."""

import asyncio
import sys
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from embedwell.limits.memory_budget import MemoryBudget

_IDLE_SECONDS = 120.0  # longer than gateways and clients (90 s) keep idle connections


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


@dataclass(frozen=True)
class HttpLimits:
    """Limits of an HTTP process, with the timer and the memory budget that enforce them.

    size: maximum bytes of a body, before and after decompression.
    timeouts: time limits of bodies and of heads.
    budget: memory for all large requests together.
    connections: maximum count of connections.
    idle_timeouts: time limit of connections between requests.
    """

    size: int
    timeouts: Timeouts
    budget: MemoryBudget = field(default_factory=MemoryBudget)
    connections: int = sys.maxsize
    idle_timeouts: Timeouts = field(default_factory=partial(Timeouts, _IDLE_SECONDS))


class LimitedConnection(Protocol):
    """A connection that may be closed to make room for another."""

    def waits_for_client(self) -> bool:
        """Whether a request is incomplete, or a response is not read."""

    def abort(self) -> None:
        """Close the connection immediately."""


class ConnectionLimit:
    """The open connections, limited in number."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._connections = OrderedDict[LimitedConnection, None]()  # the most recently active last

    def admit(self, new: LimitedConnection) -> bool:
        """Add a connection; at the limit, close the connection that waits for its client longest.

        Returns False if no connection waits, so that the new one exceeds the limit.
        """
        waiting = None
        if len(self._connections) >= self._limit:
            waiting = next((other for other in self._connections if other.waits_for_client()), None)
            if waiting is None:
                return False
            self.remove(waiting)
            waiting.abort()
        self._connections[new] = None
        return True

    def note_activity(self, connection: LimitedConnection) -> None:
        """Record that the client has sent or received something."""
        if connection in self._connections:
            self._connections.move_to_end(connection)

    def remove(self, connection: LimitedConnection) -> None:
        """Remove a connection that is closed or was not admitted."""
        self._connections.pop(connection, None)
