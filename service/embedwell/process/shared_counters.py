"""Counters that the processes of a server share: each writes a row of its own."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from tempfile import TemporaryFile

_SLOTS = 8192  # of a row, 8 bytes each; a path of the server takes 63
_GAUGES = 64  # of the slots, the last ones


class Slot(IntEnum):
    """Columns with a fixed meaning, which several processes use."""

    ENGINE_RESTARTS = 0
    HEARTBEAT = 1  # of an HTTP process: changes while its event loop turns
    ENGINE_BATCHES = 2  # started and finished ones, counted together
    ENGINE_EXPECTED_SECONDS = 3  # of the longest running batch
    LAST_USED = 4  # time.monotonic, which all processes of a machine share
    WEIGHT_BYTES = 5  # of the model in memory; each HTTP process writes the same
    MODEL_STATE = 6  # see embedwell.engine.protocol.model_state; of the watcher's row, as the next
    STATE_SINCE = 7  # time.monotonic
    LOAD_SECONDS = 8  # of the latest load; 0 if there was none


QUEUED_TOKENS = _SLOTS - _GAUGES
"""The first of the gauges, which several processes use, too."""


@contextmanager
def counters_file(rows: int) -> Iterator[int]:
    """The descriptor of an unnamed file with room for so many rows.

    Raises OSError when the disk is full.
    """
    with TemporaryFile() as file:
        # Not a sparse file: on a full disk a write through the map would kill the process.
        file.write(bytes(_size(rows)))
        file.flush()
        yield file.fileno()


class SharedCounters:
    """A table of numbers in shared memory, of which all processes read the sums of columns.

    Each process writes its own row, so no lock is needed; the successor of a process that died
    takes its row. All must allocate the same slots in the same order.
    """

    def __init__(self, memory: mmap.mmap, rows: int, row: int) -> None:
        self._rows = [
            memoryview(memory).cast("d")[i * _SLOTS : (i + 1) * _SLOTS] for i in range(rows)
        ]
        self.row = self._rows[row]
        self._used, self._gauges = len(Slot), QUEUED_TOKENS + 1

    @classmethod
    def private(cls) -> "SharedCounters":
        """Counters of a single process."""
        return cls(mmap.mmap(-1, _size(1)), 1, 0)

    @classmethod
    def attach(cls, file: int, rows: int, row: int) -> "SharedCounters":
        """Counters in the file of a descriptor. row: the one of this process."""
        return cls(mmap.mmap(file, _size(rows)), rows, row)

    def allocate(self, count: int = 1, gauge: bool = False) -> int:
        """Allocate slots, and return the first; in a new file they are 0.

        gauge: they hold a momentary value of each process, and not a total. Raises ValueError if
        there are no more.
        """
        if gauge:
            first, self._gauges, end = self._gauges, self._gauges + count, _SLOTS
        else:
            first, self._used, end = self._used, self._used + count, QUEUED_TOKENS
        if first + count > end:
            raise ValueError("there are more counters than a row has slots: raise _SLOTS")
        return first

    def clear_gauges(self, row: int) -> None:
        """Set the gauges of a row to 0, after its process has ended."""
        for slot in range(QUEUED_TOKENS, _SLOTS):
            self._rows[row][slot] = 0

    def read(self, slot: int, row: int) -> float:
        """The value of a slot in one row."""
        return self._rows[row][slot]

    def slots_of_all_rows(self, first: int, count: int) -> list[float]:
        """So many slots of each row, one row after the other."""
        return [value for row in self._rows for value in row[first : first + count]]

    def largest(self, slot: int) -> float:
        """The largest value of a column."""
        return max(row[slot] for row in self._rows)

    def total(self, slot: int) -> float:
        """The sum of a column."""
        return sum([row[slot] for row in self._rows])  # for a few rows, faster than a generator


def _size(rows: int) -> int:
    return rows * _SLOTS * 8
