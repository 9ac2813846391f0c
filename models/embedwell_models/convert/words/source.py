"""A file of word vectors: what the readers of all formats return."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from embedwell_models.tokenizer.words.subwords import Subwords
from embedwell_models.vectors import Floats


class WordVectors(Protocol):
    """Word vectors in the order of their file. width: dimensions.

    subwords: of words that the file lacks; None if these have no vector. counts: how often each
    word was seen in training; empty if the file does not say.
    """

    width: int
    subwords: Subwords | None
    counts: Mapping[str, int]

    def rows(self) -> Iterator[tuple[str, Floats]]:
        """Yield each word and its vector (D,); a word may come again. Raises ModelError."""
        ...

    def buckets(self) -> Iterator[Floats]:
        """Yield the vectors of the buckets of n-grams, in blocks (N, D)."""
        ...


@dataclass
class PlainVectors:
    """The vectors of whole words alone. source: yields each word and its vector."""

    width: int
    source: Iterator[tuple[str, Floats]]
    subwords: Subwords | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def rows(self) -> Iterator[tuple[str, Floats]]:
        """Yield each word and its vector."""
        return self.source

    def buckets(self) -> Iterator[Floats]:
        """Yield nothing."""
        return iter(())
