"""Limits that several endpoints share, each with its own error code."""

import numpy as np

from embedwell.compute.memory_budget import Reservation
from embedwell.errors import BadRequest, TooLarge

JSON_LIMITS = {
    b":": ("fields", 10_000),
    b"{": ("objects", 10_000),
    b"[": ("lists", 50_000),
    b",": ("values", 1_000_000),
}
"""Limit of each kind of part of a body, by the character that counts it outside strings."""

_SMALLEST_JSON_LIMIT = min(limit for _, limit in JSON_LIMITS.values())


def check_parts(text: bytes) -> None:
    """Raise TooLarge for a JSON body with too many parts, before it is parsed.

    Validating millions of them would block the event loop for seconds.
    """
    if len(text) <= _SMALLEST_JSON_LIMIT:
        return
    exceeded = [char for char, (_, limit) in JSON_LIMITS.items() if text.count(char) > limit]
    if not exceeded:
        return
    # Keep the bytes before the first quotation mark, after the second, and so on.
    chars = np.frombuffer(text.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    stripped = chars[~np.logical_xor.accumulate(chars == ord('"'))].tobytes()
    for char in exceeded:
        name, limit = JSON_LIMITS[char]
        if stripped.count(char) > limit:
            raise TooLarge(
                f"the body has more than {limit} {name}; split the request", code="too_many_parts"
            )


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
