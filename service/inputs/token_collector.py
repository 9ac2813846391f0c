"""Collect the ids of a text tokenized in chunks, and which belong to prompt or special tokens."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import takewhile


class TokenCollector:
    """ids: those of a prompt and a text, special ones included."""

    def __init__(self) -> None:
        self.ids = array("i")
        self._outside = bytearray()

    def add(self, batch: Sequence[tuple[int, bool]]) -> None:
        """Add the next ids, each with whether it is outside of the text."""
        self.ids.extend(id for id, _ in batch)
        self._outside.extend(outside for _, outside in batch)

    @property
    def before(self) -> int:
        """Tokens before the first one of the text."""
        return _leading(self._outside)

    @property
    def after(self) -> int:
        """Tokens after the last one of the text."""
        return _leading(reversed(self._outside))


def _leading(outside: Iterable[int]) -> int:
    return sum(1 for _ in takewhile(bool, outside))
