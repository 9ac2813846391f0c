"""Counters that the processes of a server share, and in them the state and progress of engines.

Each process writes its own row. The first process writes the state of an engine, the engine its
progress; the HTTP processes read both.
"""

import mmap
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from math import ceil
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
    # The rest is in the watcher's row, see EngineState.
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


_FIRST_LOAD_SECONDS = 5.0  # assumed for a model that has not been loaded yet
# Plain integers index faster than an enum's members.
_BATCHES, _EXPECTED = int(CounterSlot.ENGINE_BATCHES), int(CounterSlot.ENGINE_EXPECTED_SECONDS)


class EngineState(IntEnum):
    """State of an engine.

    RUNNING: it is loading or loaded.
    FAILED: it cannot be loaded, and was tried recently.
    """

    RUNNING = 0
    UNLOADED = 1
    FAILED = 2


class ModelState:
    """The state of a model's engine in the shared counters."""

    def __init__(
        self, counters: SharedCounters, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """counters: the model's shared counters. Only one process may set the state."""
        self._counters, self._clock = counters, clock

    @property
    def engine(self) -> EngineState:
        """The current state."""
        return EngineState(int(self._counters.total(CounterSlot.MODEL_STATE)))

    def set(self, state: EngineState) -> None:
        """Change the state, and record the time."""
        row = self._counters.row
        row[CounterSlot.MODEL_STATE], row[CounterSlot.STATE_SINCE] = state, self._clock()

    def note_loaded(self, seconds: float) -> None:
        """Record how long the engine took to be ready, as an estimate for the next load."""
        self._counters.row[CounterSlot.LOAD_SECONDS] = seconds

    @property
    def since(self) -> float:
        """Time of the last change of the state; 0 if it never changed."""
        return self._counters.total(CounterSlot.STATE_SINCE)

    @property
    def seconds(self) -> float:
        """Seconds since the state changed."""
        return self._clock() - self.since

    @property
    def was_loaded(self) -> bool:
        """Whether an engine has been ready since the server was started."""
        return self._counters.total(CounterSlot.LOAD_SECONDS) > 0

    @property
    def load_seconds(self) -> float:
        """Seconds that the model takes to load: those of the last load, or an estimate."""
        return self._counters.total(CounterSlot.LOAD_SECONDS) or _FIRST_LOAD_SECONDS

    @property
    def seconds_until_loaded(self) -> int:
        """Whole seconds until a loading model is expected to be ready, at least one."""
        elapsed = self.seconds if self.engine is EngineState.RUNNING else 0.0
        return max(1, ceil(self.load_seconds - elapsed))


class EngineProgress:
    """Reports the start and end of each batch; not thread-safe."""

    def __init__(self, counters: SharedCounters | None = None, pid: int = 0) -> None:
        """counters: those of the engine's row; private ones by default.

        pid: the engine's process id; 0 if it is not a process of its own.
        """
        self._row = (counters or SharedCounters.private()).row
        self._row[CounterSlot.ENGINE_PID] = pid
        self._row[_EXPECTED] = 0.0  # the previous engine may have died in a batch
        self._running: dict[Hashable, float] = {}

    def begin(self, batch: Hashable, seconds: float) -> None:
        """Report the start of a batch.

        seconds: its expected duration.
        """
        self._running[batch] = seconds
        self._report()

    def end(self, batch: Hashable) -> None:
        """Report the end of a batch."""
        del self._running[batch]
        self._report()

    def _report(self) -> None:
        self._row[_EXPECTED] = max(self._running.values()) if self._running else 0.0
        self._row[_BATCHES] += 1
