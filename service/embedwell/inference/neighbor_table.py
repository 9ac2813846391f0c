"""NeighborTable for neighbours: a model's vocabulary, or the texts of a request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from embedwell_models.tables.neighbors import Neighbors, Question, Rows, lengths, nearest
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.vectors import Floats


@dataclass
class NeighborTable:
    """A table of vectors (N, D), and the text of each row."""

    table: Rows
    text: Callable[[int], str]
    _lengths: Floats | None = field(default=None, init=False)

    @classmethod
    def of_texts(cls, texts: Sequence[str], vectors: Floats) -> "NeighborTable":
        """Build candidates from texts and their vectors (N, D)."""
        return cls(vectors, texts.__getitem__)

    def nearest(self, question: Question, k: int) -> Steps[list[Neighbors]]:
        """Return the k nearest rows for each list that a question requests."""
        if self._lengths is None:
            self._lengths = yield from lengths(self.table)
        return (yield from nearest(self.table, self._lengths, question, k))
