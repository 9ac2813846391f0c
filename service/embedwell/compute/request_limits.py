"""Limits that several endpoints share, each with its own error code."""

from embedwell.compute.memory_budget import Reservation
from embedwell.errors import BadRequest, TooLarge


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
