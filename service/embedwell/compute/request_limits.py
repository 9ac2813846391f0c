"""Limits and costs of a request: memory, inputs, numbers of its response, and time."""

import sys
import time
from dataclasses import dataclass, field
from typing import Protocol

from embedwell.errors import BadRequest, Overloaded, TooLarge

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


@dataclass(slots=True, kw_only=True)
class RequestCosts:
    """The memory, tokens and time that a request uses, for its headers, metrics and limits.

    memory: the request's reservation.
    body_bytes: size of its body.

    The reader of inputs sets model_index, texts, tokens, truncated (a count of texts),
    tokenize_start (time.perf_counter) and tokenize_us.

    The pipeline sets cached (a count of vectors), queue_us (until the first batch starts) and
    compute_us (until the last batch ends).
    """

    memory: Reservation = field(default_factory=Reservation)
    body_bytes: int = 0
    model_index: int = 0
    texts: int = 0
    tokens: int = 0
    truncated: int = 0
    tokenize_start: float = 0.0
    tokenize_us: int = 0
    cached: int = 0
    queue_us: int = 0
    compute_us: int = 0


def check_input_count(count: int, limit: int) -> None:
    """Raise BadRequest if there are no inputs, and TooLarge if there are too many."""
    if not count:
        raise BadRequest("give at least one text", code="no_input")
    if count > limit:
        raise TooLarge(
            f"the request has {count} texts, but the limit is {limit}; split it",
            code="too_many_texts",
        )


def check_response_numbers(values: int, limit: int) -> None:
    """Raise TooLarge if a response would have too many numbers."""
    if values > limit:
        raise TooLarge(
            f"the response would have {values} numbers, but the limit is {limit}; split the "
            "request",
            code="too_many_values",
        )


class ResponseSize:
    """Counts the numbers of a response as they are computed, and reserves their memory."""

    def __init__(self, memory: Reservation, limit: int) -> None:
        """limit: maximum count of numbers."""
        self._memory, self._limit, self._numbers = memory, limit, 0

    def grow(self, numbers: int) -> None:
        """Add more numbers; raises TooLarge for too many, and Overloaded."""
        self._numbers += numbers
        if self._numbers > self._limit:
            raise TooLarge(
                f"the response would have {self._numbers} numbers or more, but the limit is "
                f"{self._limit}; split the request",
                code="too_many_values",
            )
        self._memory.grow_by_numbers(numbers)
