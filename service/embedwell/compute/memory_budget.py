"""Memory limit for all large requests and responses of a process together."""

import sys
import time
from typing import Protocol

from embedwell.errors import Overloaded

SMALL = 1 << 16
"""Bytes of a request and its response that are always allowed and not counted."""
_BYTES_PER_NUMBER = 32  # bytes as float32, and as JSON while it is built


class SlowClient(Protocol):
    """A client that has not sent all of a body, or not read all of a response."""

    @property
    def memory(self) -> "Reservation | None":
        """The reservation of the body or the response; none before the first request."""

    def give_way(self) -> None:
        """End the request, because others need its memory."""


class MemoryBudget:
    """Bytes that all large requests of a process may reserve, and have reserved."""

    def __init__(
        self, limit: int = sys.maxsize, strict: bool = False, max_pause: float = 3.0
    ) -> None:
        """strict: whether a request that exceeds the limit alone is rejected, too.

        max_pause: seconds without progress, after which a client may be ended for others.
        """
        self.limit, self.reserved, self.strict = limit, 0, strict
        self._max_pause = max_pause
        self._paused: dict[SlowClient, float] = {}  # since when

    def pause(self, client: SlowClient, seconds: float = 0.0) -> None:
        """Record that the server waits for a client, and has waited for some seconds before."""
        self._paused.setdefault(client, time.monotonic() - seconds)

    def resume(self, client: SlowClient) -> None:
        """Record that a client has sent or read enough for the server to continue, or is gone."""
        self._paused.pop(client, None)

    def make_room(self, size: int, asking: "Reservation") -> bool:
        """End requests whose clients have stopped, those of the longest pause first.

        Returns whether that frees the bytes; if not, none is ended.
        """
        stopped = [each for each in self._stopped_clients() if each[1] is not asking]
        if sum(memory.reserved for _, memory in stopped) < size:
            return False
        target = self.reserved - size
        for client, memory in stopped:
            if self.reserved > target:
                memory.give_up()
                client.give_way()
        return True

    def _stopped_clients(self) -> list[tuple[SlowClient, "Reservation"]]:
        latest = time.monotonic() - self._max_pause
        stopped = [client for client, since in self._paused.items() if since <= latest]
        stopped.sort(key=self._paused.__getitem__)
        memories = [(client, client.memory) for client in stopped]
        return [(client, memory) for client, memory in memories if memory and memory.budget is self]


class Reservation:
    """Memory of one request: its body, its vectors, and the unsent part of its response."""

    __slots__ = ("budget", "reserved", "size")

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self.budget = budget or MemoryBudget()
        self.reserved = self.size = 0

    def grow(self, size: int) -> None:
        """Reserve more bytes; raises Overloaded if other requests have reserved too many.

        A large request is always allowed while there is no other, unless the budget is strict.
        """
        self.size += size
        if self.size > SMALL:
            self._reserve()

    def grow_by_numbers(self, count: int) -> None:
        """Reserve the memory of numbers in a response; raises Overloaded."""
        self.grow(_BYTES_PER_NUMBER * count)

    def release(self) -> None:
        """Release all reserved bytes."""
        self.give_up()
        self.size = 0

    def give_up(self) -> None:
        """Leave the reserved bytes to others; `size` remains, as the memory is still in use."""
        self.budget.reserved -= self.reserved
        self.reserved = 0

    def _reserve(self) -> None:
        excess = self._excess()
        if excess > 0 and not self.budget.make_room(excess, self):
            raise Overloaded(
                "other requests use all of the server's memory for large requests and "
                "responses (EMBEDWELL_MAX_BUFFERED_BYTES); try again in a few seconds, or send "
                "smaller requests",
                retry_after=1,
            )
        self.budget.reserved += self.size - self.reserved
        self.reserved = self.size

    def _excess(self) -> int:
        """Return the bytes that others have to release before this size may be reserved."""
        others = self.budget.reserved - self.reserved
        excess = others + self.size - self.budget.limit
        return excess if self.budget.strict else min(excess, others)
