"""The content of a file of word vectors, as the readers of all formats return it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from embedwell_models.tokenizer.words.subwords import Subwords
from embedwell_models.vectors import Floats


class WordVectors(Protocol):
    """Word vectors in the order of their file. width: number of dimensions.

    subwords: n-grams of words that the file lacks; None if these words have no vector. counts:
    number of occurrences of each word in training; empty if the file does not contain it.
    """

    width: int
    subwords: Subwords | None
    counts: Mapping[str, int]

    def rows(self) -> Iterator[tuple[str, Floats]]:
        """Yield each word and its vector (D,); a word may be repeated. Raises ModelError."""
        ...

    def buckets(self) -> Iterator[Floats]:
        """Yield the vectors of the n-gram buckets in blocks (N, D)."""
        ...


@dataclass
class PlainVectors:
    """Vectors of whole words only. source: yields each word and its vector."""

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
