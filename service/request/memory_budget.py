"""Memory for large request bodies and responses, of which a process has a limited amount."""

import sys

from service.errors import Overloaded

SMALL = 1 << 16
"""Bytes of a request and its response that always pass, and are not counted."""
_BYTES_PER_NUMBER = 32  # bytes: as computed, and as JSON while that is put together


class MemoryBudget:
    """Bytes that all large requests of a process may take together."""

    def __init__(self, limit: int = sys.maxsize) -> None:
        self.limit, self.reserved = limit, 0


class Reservation:
    """The memory of one request: its body, what is computed, and what is not sent yet."""

    __slots__ = ("_budget", "_reserved", "size")

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self._budget = budget or MemoryBudget()
        self._reserved = self.size = 0

    def grow(self, size: int) -> None:
        """Reserve more bytes; raises Overloaded where others have too many.

        The only large request always passes, whatever the limit.
        """
        self.size += size
        if self.size > SMALL:
            self._reserve()

    def grow_by_numbers(self, count: int) -> None:
        """The same for so many numbers of a response."""
        self.grow(_BYTES_PER_NUMBER * count)

    def release(self) -> None:
        """Give everything back."""
        self._budget.reserved -= self._reserved
        self._reserved = self.size = 0

    def _reserve(self) -> None:
        other_reserved = self._budget.reserved - self._reserved
        if other_reserved and other_reserved + self.size > self._budget.limit:
            raise Overloaded(
                "other large requests and responses take all of the memory that the server has "
                "for them; come again shortly, or ask for less at a time",
                retry=1,
            )
        self._budget.reserved = other_reserved + self.size
        self._reserved = self.size
