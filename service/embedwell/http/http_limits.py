"""Limits of an HTTP process: time of clients, size of bodies, memory, and number of connections."""

import asyncio
import resource
import sys
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Protocol

from embedwell.compute.activity import Heartbeat
from embedwell.compute.memory_budget import MemoryBudget

_HEALTH_CHECKS = 8  # connections that are kept for health checks
_SPARE_DESCRIPTORS = 2 * _HEALTH_CHECKS  # for them, and for files
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

    def is_idle(self) -> bool:
        """Whether the client may send its next request, and has not begun to."""

    def make_room(self) -> None:
        """Close the connection immediately."""


class AllowedRequests(Enum):
    """Requests that a new connection may send."""

    ALL = auto()
    HEALTH_CHECKS = auto()
    NONE = auto()


class ConnectionLimit:
    """The open connections, limited in number, and a few more for health checks.

    So many descriptors are left to these few that health checks have some when others run out.
    """

    def __init__(
        self,
        limit: int,
        health_checks: int = _HEALTH_CHECKS,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        """health_checks: connections beyond the limit that only send health checks.

        heartbeat: is told that a client connects, or sends or receives something.
        """
        self._heartbeat = heartbeat
        self._connections, self._health_checks = _Connections(limit), _Connections(health_checks)

    def admit(self, new: LimitedConnection, descriptor: int = 0) -> AllowedRequests:
        """Add a connection; at the limit, close another one that has no request to finish.

        That is the one that waits for its client longest, or else the one that is idle longest.
        descriptor: that of the connection's socket, the lowest that was free.
        """
        self._note_use()
        if self._connections.add(new, must_replace=descriptor >= _most_descriptors()):
            return AllowedRequests.ALL
        return (
            AllowedRequests.HEALTH_CHECKS if self._health_checks.add(new) else AllowedRequests.NONE
        )

    def note_activity(self, connection: LimitedConnection) -> None:
        """Record that the client has sent or received something."""
        self._note_use()
        for connections in (self._connections, self._health_checks):
            if connection in connections.open:
                connections.open.move_to_end(connection)

    def _note_use(self) -> None:
        if self._heartbeat is not None and not self._heartbeat.used:
            self._heartbeat.note_use()

    def remove(self, connection: LimitedConnection) -> None:
        """Remove a connection that is closed or was not admitted."""
        for connections in (self._connections, self._health_checks):
            connections.open.pop(connection, None)


class _Connections:
    """Connections up to a number. open: the most recently active last."""

    def __init__(self, limit: int) -> None:
        self._limit, self.open = limit, OrderedDict[LimitedConnection, None]()

    def add(self, new: LimitedConnection, must_replace: bool = False) -> bool:
        if must_replace or len(self.open) >= self._limit:
            old = next((other for other in self.open if other.waits_for_client()), None)
            old = old or next((other for other in self.open if other.is_idle()), None)
            if old is None:
                return False
            del self.open[old]
            old.make_room()
        self.open[new] = None
        return True


def _most_descriptors() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - _SPARE_DESCRIPTORS
