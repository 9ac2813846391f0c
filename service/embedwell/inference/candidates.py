"""Candidates for neighbours: a model's vocabulary, or the texts of a request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from embedwell_models.neighbors import Neighbors, Question, Rows, lengths, nearest
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class Candidates:
    """A table of vectors (N, D), and the text of each row."""

    table: Rows
    text: Callable[[int], str]

    @classmethod
    def of_texts(cls, texts: Sequence[str], vectors: Floats) -> "Candidates":
        """Build candidates from texts and their vectors (N, D)."""
        return cls(vectors, texts.__getitem__)

    @cached_property
    def norms(self) -> Floats:
        """Norm of each row, 1 for a row of zeros; computed once: (N,)."""
        return lengths(self.table)

    def nearest(self, question: Question, k: int) -> list[Neighbors]:
        """Return the k nearest rows for each list that a question requests."""
        return nearest(self.table, self.norms, question, k)
