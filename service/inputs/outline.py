"""The ids of a text that is read piece by piece, and which of them are no part of it."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import takewhile


class Outline:
    """ids: those of a prompt and a text, special ones included."""

    def __init__(self) -> None:
        self.ids = array("i")
        self._outside = bytearray()

    def add(self, piece: Sequence[tuple[int, bool]]) -> None:
        """The ids of the next piece, and whether they are outside of the text."""
        self.ids.extend(id for id, _ in piece)
        self._outside.extend(outside for _, outside in piece)

    @property
    def before(self) -> int:
        """How many tokens come before the first that is part of the text."""
        return _leading(self._outside)

    @property
    def after(self) -> int:
        """How many come after the last."""
        return _leading(reversed(self._outside))


def _leading(outside: Iterable[int]) -> int:
    return sum(1 for _ in takewhile(bool, outside))
