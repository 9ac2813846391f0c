"""Where characters stand among the bytes of a text."""

from collections.abc import Callable
from itertools import accumulate

Bytes = Callable[[int | None], int | None]


def bytes_of(text: str) -> Bytes:
    """From a character's index to that of its first UTF-8 byte; None stays None."""
    borders = list(accumulate((len(char.encode()) for char in text), initial=0))
    return lambda index: None if index is None else borders[index]
