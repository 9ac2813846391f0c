"""Whether the engine of a model runs: written by the first process, read by the HTTP processes."""

import time
from collections.abc import Callable
from enum import IntEnum
from math import ceil

from embedwell.process.shared_counters import SharedCounters, Slot

_FIRST_LOAD_SECONDS = 5.0  # assumed of a model that has not been loaded yet


class EngineState(IntEnum):
    """RUNNING: it is loading or loaded. FAILED: it cannot be loaded, and was tried lately."""

    RUNNING = 0
    UNLOADED = 1
    FAILED = 2


class ModelState:
    """The state of a model's engine in the shared counters."""

    def __init__(
        self, counters: SharedCounters, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """counters: the model's. Only one process may set the state."""
        self._counters, self._clock = counters, clock

    @property
    def engine(self) -> EngineState:
        """The current state."""
        return EngineState(int(self._counters.total(Slot.MODEL_STATE)))

    def set(self, state: EngineState) -> None:
        """Change the state, and note the time."""
        row = self._counters.row
        row[Slot.MODEL_STATE], row[Slot.STATE_SINCE] = state, self._clock()

    def note_loaded(self, seconds: float) -> None:
        """Note how long the engine took to be ready, which is expected of the next load, too."""
        self._counters.row[Slot.LOAD_SECONDS] = seconds

    @property
    def since(self) -> float:
        """When the state changed, by the clock; 0 if it never did."""
        return self._counters.total(Slot.STATE_SINCE)

    @property
    def seconds(self) -> float:
        """Seconds since the state changed."""
        return self._clock() - self.since

    @property
    def load_seconds(self) -> float:
        """Seconds that the model takes to load: as the last time, or a guess."""
        return self._counters.total(Slot.LOAD_SECONDS) or _FIRST_LOAD_SECONDS

    @property
    def seconds_until_loaded(self) -> int:
        """Whole seconds after which a model that loads is expected to be ready, at least one."""
        elapsed = self.seconds if self.engine is EngineState.RUNNING else 0.0
        return max(1, ceil(self.load_seconds - elapsed))
