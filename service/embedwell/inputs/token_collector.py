"""Collect the token ids of a text that is tokenized in chunks."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import takewhile


class TokenCollector:
    """Collects the ids of a prompt and a text, with special tokens."""

    def __init__(self) -> None:
        self.ids = array("i")
        self._outside = bytearray()  # for each id, whether it is a prompt or special token

    def add(self, batch: Sequence[tuple[int, bool]]) -> None:
        """Add ids, each with a flag for a prompt or special token."""
        self.ids.extend(id for id, _ in batch)
        self._outside.extend(outside for _, outside in batch)

    @property
    def tokens_before_text(self) -> int:
        """Number of tokens before the first one of the text."""
        return _leading(self._outside)

    @property
    def tokens_after_text(self) -> int:
        """Number of tokens after the last one of the text."""
        return _leading(reversed(self._outside))


def _leading(outside: Iterable[int]) -> int:
    return sum(1 for _ in takewhile(bool, outside))
