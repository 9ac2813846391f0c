"""Numbers that the HTTP processes of a server share: each adds to a row of its own."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile

_SLOTS = 4096  # of a row, 8 bytes each


@contextmanager
def table(rows: int) -> Iterator[int]:
    """The boards of so many processes: the descriptor of a file without a name.

    Raises OSError where there is no room for it.
    """
    with TemporaryFile() as file:
        # Not a hole: to write to one through a map, where the disk is full, ends the process.
        file.write(bytes(_size(rows)))
        file.flush()
        yield file.fileno()


class Board:
    """A table of numbers in memory that several processes map; all read the sums of its columns.

    Nobody writes another's row, so nothing is locked; a process that takes the row of one that
    died goes on where that stopped. All must ask for the same numbers in the same order.
    """

    def __init__(self, memory: mmap.mmap, rows: int, row: int) -> None:
        self._rows = [
            memoryview(memory).cast("d")[i * _SLOTS : (i + 1) * _SLOTS] for i in range(rows)
        ]
        self.row, self._used = self._rows[row], 0
        self._held: list[int] = []

    @classmethod
    def alone(cls) -> "Board":
        """That of a server of one HTTP process."""
        return cls(mmap.mmap(-1, _size(1)), 1, 0)

    @classmethod
    def shared(cls, file: int, rows: int, row: int) -> "Board":
        """That of one of as many processes. file: the descriptor of their table."""
        return cls(mmap.mmap(file, _size(rows)), rows, row)

    def take(self, count: int = 1, held: bool = False) -> int:
        """The first of so many slots that are the caller's from now on, and 0 in a new table.

        held: they tell what a process has at the moment, and not what there was in all.
        """
        first, self._used = self._used, self._used + count
        assert self._used <= _SLOTS
        self._held += range(first, self._used) if held else ()
        return first

    def bury(self, row: int) -> None:
        """Forget what the process of a row had, as it is no more."""
        for slot in self._held:
            self._rows[row][slot] = 0

    def total(self, slot: int) -> float:
        """The sum of a column."""
        return sum(row[slot] for row in self._rows)


def _size(rows: int) -> int:
    return rows * _SLOTS * 8
