"""Input of a reranker or classifier: a text pair, or a single text."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts that are read together, or a single text; `len` counts their characters."""

    first: str
    second: str | None = None

    def __len__(self) -> int:
        return len(self.first) + len(self.second or "")


def first_indices(texts: Iterable[str]) -> dict[str, int]:
    """Map each text to the index at which it comes first."""
    indices: dict[str, int] = {}
    for index, text in enumerate(texts):
        indices.setdefault(text, index)
    return indices
