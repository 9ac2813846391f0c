"""State and progress of a model's engine, in the shared counters.

The first process writes the state, the engine its progress; the HTTP processes read both.
"""

import time
from collections.abc import Callable, Hashable
from enum import IntEnum
from math import ceil

from embedwell.engine.wire.shared_counters import CounterSlot, SharedCounters

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
