"""Memory limit for all large requests and responses of a process together."""

import sys

from embedwell.errors import Overloaded

SMALL = 1 << 16
"""Bytes of a request and its response that are always allowed and not counted."""
_BYTES_PER_NUMBER = 32  # bytes as float32, and as JSON while it is built


class MemoryBudget:
    """Bytes that all large requests of a process may reserve, and have reserved."""

    def __init__(self, limit: int = sys.maxsize) -> None:
        self.limit, self.reserved = limit, 0


class Reservation:
    """Memory of one request: its body, its vectors, and the unsent part of its response."""

    __slots__ = ("_budget", "_reserved", "size")

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self._budget = budget or MemoryBudget()
        self._reserved = self.size = 0

    def grow(self, size: int) -> None:
        """Reserve more bytes; raises Overloaded if other requests have reserved too many.

        A large request is always allowed while there is no other.
        """
        self.size += size
        if self.size > SMALL:
            self._reserve()

    def grow_by_numbers(self, count: int) -> None:
        """Reserve the memory of numbers in a response; raises Overloaded."""
        self.grow(_BYTES_PER_NUMBER * count)

    def release(self) -> None:
        """Release all reserved bytes."""
        self._budget.reserved -= self._reserved
        self._reserved = self.size = 0

    def _reserve(self) -> None:
        other_reserved = self._budget.reserved - self._reserved
        if other_reserved and other_reserved + self.size > self._budget.limit:
            raise Overloaded(
                "other requests use all of the server's memory for large requests and "
                "responses; try again in a few seconds, or send smaller requests",
                retry_after=1,
            )
        self._budget.reserved = other_reserved + self.size
        self._reserved = self.size
