"""Pairs of texts with the same meaning, from files of pairs or of single texts."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from embedwell_models.errors import ModelError
from embedwell_models.training.corpus import Corpus

COLUMNS = ("anchor", "positive", "negative")
_SUFFIXES = (".tsv", ".jsonl")


@dataclass(frozen=True)
class Pairs:
    """Rows of an anchor, a positive with the same meaning and optionally a negative without it.

    A .tsv file has them in columns, with or without a header; a .jsonl file has them in fields with
    these names. In other files each text is paired with itself: its two vectors differ by dropout
    (unsupervised SimCSE, Gao et al. 2021, arXiv 2104.08821).
    """

    corpus: Corpus

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns in the first row; raises ModelError."""
        first = next(iter(self), None)
        if first is None:
            raise ModelError(f"{self.corpus.name} has a header but no pairs")
        return COLUMNS[: len(first)]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield each row; raises ModelError for a row with other columns than the first row."""
        suffix = next((s for s in _SUFFIXES if self.corpus.name.endswith(s)), "")
        width = 0
        for number, line in self.corpus.lines():
            try:
                row = _row(line, suffix)
            except ValueError as error:
                raise ModelError(f"{self.corpus.name}, line {number}: {error}") from None
            if row == COLUMNS[: len(row)]:  # header
                continue
            width = width or len(row)
            if len(row) != width:
                problem = f"{len(row)} texts, where lines before it have {width}"
                raise ModelError(f"{self.corpus.name}, line {number}: {problem}")
            yield row

    def texts(self) -> Iterator[str]:
        """Yield the texts of all rows; each text of a plain file is yielded once."""
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
