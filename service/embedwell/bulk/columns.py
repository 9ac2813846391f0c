"""The columns of an input that are read and written."""

from collections.abc import Sequence
from dataclasses import dataclass

from embedwell.bulk.errors import BulkError

EMBEDDING, ROW = "embedding", "row"
"""Columns that a run adds."""


@dataclass(frozen=True)
class Columns:
    """Names of columns of the input.

    text: column of the texts.
    id: column that identifies a row; None adds the column `row` instead.
    keep: columns to write beside the vectors, always with the id; None for all.
    """

    text: str = "text"
    id: str | None = None
    keep: tuple[str, ...] | None = None

    def to_read(self, names: Sequence[str], file: str) -> list[str]:
        """Return the needed columns of a file. Raises BulkError for a missing one."""
        wanted = [self.text, *filter(None, [self.id]), *(self.keep or ())]
        for name in wanted:
            if name not in names:
                raise BulkError(f"{file} has no column {name!r}; it has: {', '.join(names)}")
        if len({*names}) < len(names):
            raise BulkError(
                f"{file} has two columns with the same name: {', '.join(names)}; rename one"
            )
        read = [name for name in names if self.keep is None or name in wanted]
        for name in (EMBEDDING, *[ROW] * (self.id is None)):
            if name in self.written(read):
                raise BulkError(
                    f"{file} has a column {name!r}, whose name the result needs; choose the "
                    "columns to write with --keep"
                )
        return read

    def written(self, names: Sequence[str]) -> list[str]:
        """Return those of the read columns that are written."""
        return [name for name in names if self.keep is None or name in self.keep or name == self.id]
