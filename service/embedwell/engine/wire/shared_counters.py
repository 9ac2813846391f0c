"""Counters that the processes of a server share; each process writes its own row."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from tempfile import TemporaryFile

_SLOTS = 8192  # slots of a row, 8 bytes each; each path of the server takes 63
_GAUGES = 64  # the last slots


class CounterSlot(IntEnum):
    """Columns with a fixed meaning that several processes use."""

    ENGINE_RESTARTS = 0
    HEARTBEAT = 1  # of an HTTP process, see embedwell.compute.activity
    ENGINE_BATCHES = 2  # number of starts and ends of batches
    ENGINE_EXPECTED_SECONDS = 3  # expected seconds of the longest running batch
    LAST_USED = 4  # time.monotonic, which all processes of a machine share
    WEIGHT_BYTES = 5  # bytes of the model's weights; each HTTP process writes the same
    ENGINE_PID = 9
    LAST_REQUEST = 10  # time.monotonic when a request began or ended; in the first model's table
    # The rest is in the watcher's row, see embedwell.engine.wire.engine_state.
    MODEL_STATE = 6
    STATE_SINCE = 7  # time.monotonic
    LOAD_SECONDS = 8  # seconds of the latest load; 0 if there was none


QUEUED_TOKENS, OPEN_REQUESTS = _SLOTS - _GAUGES, _SLOTS - _GAUGES + 1
"""The first of the gauges, which several processes use."""


@contextmanager
def counters_file(rows: int) -> Iterator[int]:
    """Create an unnamed file for so many rows, and return its descriptor.

    Raises OSError when the disk is full.
    """
    with TemporaryFile() as file:
        # Not a sparse file, because on a full disk a write through the map would kill the process.
        file.write(bytes(_size(rows)))
        file.flush()
        yield file.fileno()


class SharedCounters:
    """A table of numbers in shared memory; processes read sums of columns over all rows.

    Each process writes its own row, so no lock is needed. The successor of a process that died
    takes its row. All processes must allocate the same slots in the same order.
    """

    def __init__(self, memory: mmap.mmap, rows: int, row: int) -> None:
        self._table = memoryview(memory).cast("d")
        self._rows = [self._table[i * _SLOTS : (i + 1) * _SLOTS] for i in range(rows)]
        self.index, self.row = row, self._rows[row]
        self._used, self._gauges = len(CounterSlot), OPEN_REQUESTS + 1

    @classmethod
    def private(cls) -> "SharedCounters":
        """Create counters for a single process."""
        return cls(mmap.mmap(-1, _size(1)), 1, 0)

    @classmethod
    def attach(cls, file: int, rows: int, row: int) -> "SharedCounters":
        """Open the counters in the file of a descriptor.

        row: the row of this process.
        """
        return cls(mmap.mmap(file, _size(rows)), rows, row)

    def allocate(self, count: int = 1, gauge: bool = False) -> int:
        """Allocate slots, and return the first one; in a new file they are 0.

        Raises ValueError if no slots are left.

        gauge: whether they hold a momentary value of each process instead of a total.
        """
        if gauge:
            first, self._gauges, end = self._gauges, self._gauges + count, _SLOTS
        else:
            first, self._used, end = self._used, self._used + count, QUEUED_TOKENS
        if first + count > end:
            raise ValueError("a row has too few slots for the counters; raise _SLOTS")
        return first

    def clear_gauges(self, row: int) -> None:
        """Set the gauges of a row to 0 after its process has ended."""
        for slot in range(QUEUED_TOKENS, _SLOTS):
            self._rows[row][slot] = 0

    def read(self, slot: int, row: int) -> float:
        """Return the value of a slot in one row."""
        return self._rows[row][slot]

    def slots_of_all_rows(self, first: int, count: int) -> list[float]:
        """Return a range of slots of every row, row after row."""
        return [value for row in self._rows for value in row[first : first + count]]

    def largest(self, slot: int) -> float:
        """Return the largest value of a column."""
        return max(self._table[slot::_SLOTS])

    def column(self, slot: int) -> "memoryview[float]":
        """Return a slot of every row; the view shows later changes, too."""
        return self._table[slot::_SLOTS]

    def total(self, slot: int) -> float:
        """Return the sum of a column."""
        return sum(self._table[slot::_SLOTS])


def _size(rows: int) -> int:
    return rows * _SLOTS * 8
