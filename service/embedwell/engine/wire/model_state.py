"""State of a model's engine: written by the first process, read by the HTTP processes."""

import time
from collections.abc import Callable
from enum import IntEnum
from math import ceil

from embedwell.engine.wire.shared_counters import CounterSlot, SharedCounters

_FIRST_LOAD_SECONDS = 5.0  # assumed for a model that has not been loaded yet


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
