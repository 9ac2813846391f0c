"""Pairs of texts that mean the same, from files of pairs or of texts alone."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from embedwell_models.errors import ModelError
from embedwell_models.training.corpus import Corpus

COLUMNS = ("anchor", "positive", "negative")
_SUFFIXES = (".tsv", ".jsonl")


@dataclass(frozen=True)
class Pairs:
    """Rows of an anchor, a positive that means the same and perhaps a negative that does not.

    A .tsv has them in columns, with or without a header, a .jsonl in fields of these names. Of
    other files each text is paired with itself: its two vectors differ by dropout (unsupervised
    SimCSE, Gao et al. 2021, arXiv 2104.08821).
    """

    corpus: Corpus

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, by the first row. Raises ModelError."""
        first = next(iter(self), None)
        if first is None:
            raise ModelError(f"{self.corpus.name} has a header and no pairs")
        return COLUMNS[: len(first)]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield each row. Raises ModelError for one that has other columns than the first."""
        suffix = next((s for s in _SUFFIXES if self.corpus.name.endswith(s)), "")
        width = 0
        for number, line in self.corpus.lines():
            try:
                row = _row(line, suffix)
            except ValueError as error:
                raise ModelError(f"{self.corpus.name}, line {number}: {error}") from None
            if row == COLUMNS[: len(row)]:  # a header
                continue
            width = width or len(row)
            if len(row) != width:
                problem = f"{len(row)} texts, where lines before it have {width}"
                raise ModelError(f"{self.corpus.name}, line {number}: {problem}")
            yield row

    def texts(self) -> Iterator[str]:
        """Yield the texts of all rows, those of a plain file once."""
        plain = not self.corpus.name.endswith(_SUFFIXES)
        for row in self:
            yield from row[:1] if plain else row


def _row(line: str, suffix: str) -> tuple[str, ...]:
    """Return the texts of a line; raises ValueError."""
    if not suffix:
        return line, line
    if suffix == ".tsv":
        row = tuple(line.split("\t"))
    else:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise ValueError("write an object")
        row = tuple(record[name] for name in COLUMNS if name in record)
    texts = all(isinstance(text, str) and text.strip() for text in row)
    if not texts or not 2 <= len(row) <= len(COLUMNS):
        raise ValueError("write an anchor, a positive and, in every line or in none, a negative")
    return row
