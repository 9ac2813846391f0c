"""The content of a file of word vectors, as the readers of all formats return it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from embedwell_models.tokenizer.word_vocabulary import Subwords
from embedwell_models.vectors import Floats


@dataclass
class WordVectors:
    """Word vectors in the order of their file. width: number of dimensions.

    rows: each word and its vector (D,); a word may be repeated. Raises ModelError as it is read.
    subwords: n-grams of words that the file lacks; None if these words have no vector. buckets: the
    vectors of the n-gram buckets in blocks (N, D).
    counts: number of occurrences of each word in training; empty if the file does not contain it.
    """

    width: int
    rows: Iterable[tuple[str, Floats]]
    subwords: Subwords | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    buckets: Iterable[Floats] = ()
