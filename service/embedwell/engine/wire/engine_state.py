"""State and progress of a model's engine, in the shared counters.

The first process writes the state, the engine its progress; the HTTP processes read both.
"""

import os
import time
from collections.abc import Callable, Hashable
from enum import IntEnum
from math import ceil
from pathlib import Path

from embedwell.engine.wire.shared_counters import CounterSlot, SharedCounters

_FIRST_LOAD_SECONDS = 5.0  # assumed for a model that has not been loaded yet
_CHECK_INTERVAL = 1.0  # seconds between the checks of an engine
_UNRESPONSIVE_SECONDS, _UNRESPONSIVE_FACTOR = 5.0, 5  # factor of the longest batch's duration
_HUNG_SECONDS, _HUNG_FACTOR = 10.0, 10
_PROCESSES = Path("/proc")
_STATE, _TICKS = 0, slice(11, 13)  # fields after the name in parentheses, see proc_pid_stat(5)
_RUNNING = "R"  # also while a thread waits for a processor
# Plain integers index faster than an enum's members.
_BATCHES, _EXPECTED = int(CounterSlot.ENGINE_BATCHES), int(CounterSlot.ENGINE_EXPECTED_SECONDS)


def running_seconds(pid: int) -> float | None:
    """Return the processor time that a process has had, if one of its threads is running.

    A thread that waits for a processor is running, too. Returns None for a process that sleeps, is
    stopped or has ended, and where the system has no /proc.
    """
    try:
        threads = [
            (thread / "stat").read_text(errors="replace").rpartition(")")[2].split()
            for thread in (_PROCESSES / str(pid) / "task").iterdir()
        ]
    except OSError:
        return None
    if not any(fields[_STATE] == _RUNNING for fields in threads):
        return None
    ticks = sum(int(field) for fields in threads for field in fields[_TICKS])
    return ticks / os.sysconf("SC_CLK_TCK")


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


class Liveness:
    """Decides whether an engine hangs: jobs wait, but no batch starts or ends for too long.

    The limits grow with the expected duration of the longest running batch. Time is counted in
    checks, so that time in which this process was suspended does not count. Nor does time in which
    the engine waits for a processor that other programs use: it is slow, but it does not hang.
    """

    def __init__(
        self,
        counters: SharedCounters,
        running_seconds: Callable[[int], float | None] = running_seconds,
    ) -> None:
        """running_seconds: returns the processor time of a process, in seconds."""
        self._counters, self._running_seconds = counters, running_seconds
        self._batches, self._seconds_without_progress = -1.0, 0.0
        self._computed: float | None = None  # processor time of the engine at the last check

    def check(self, waiting: bool) -> None:
        """Compare with the last check; call once a second.

        waiting: whether the engine has jobs.
        """
        batches = self._counters.total(CounterSlot.ENGINE_BATCHES)
        progressed = batches != self._batches or not waiting
        self._batches = batches
        if progressed:
            self.note_result()
        else:
            self._seconds_without_progress += self._seconds_given()

    def note_result(self) -> None:
        """Record that the engine has just sent a result: it responds again."""
        self._seconds_without_progress, self._computed = 0.0, None

    def _seconds_given(self) -> float:
        """Return the seconds since the last check for which the engine could have run."""
        before, pid = self._computed, int(self._counters.total(CounterSlot.ENGINE_PID))
        self._computed = self._running_seconds(pid) if pid else None
        if before is None or self._computed is None:
            return _CHECK_INTERVAL
        return min(max(self._computed - before, 0.0), _CHECK_INTERVAL)

    @property
    def unresponsive(self) -> bool:
        """Whether to send the engine no more jobs."""
        return self._exceeds(_UNRESPONSIVE_SECONDS, _UNRESPONSIVE_FACTOR)

    @property
    def hung(self) -> bool:
        """Whether to kill the engine."""
        return self._exceeds(_HUNG_SECONDS, _HUNG_FACTOR)

    def _exceeds(self, seconds: float, factor: int) -> bool:
        if self._seconds_without_progress < seconds:  # a cheap check for the usual case
            return False
        expected = self._counters.total(CounterSlot.ENGINE_EXPECTED_SECONDS)
        return self._seconds_without_progress >= factor * expected
