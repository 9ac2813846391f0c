"""Whether an engine responds, by its progress and its processor time."""

import os
from collections.abc import Callable
from pathlib import Path

from embedwell.engine.wire.engine_state import CounterSlot, SharedCounters

_CHECK_INTERVAL = 1.0  # seconds between the checks of an engine
_UNRESPONSIVE_SECONDS, _UNRESPONSIVE_FACTOR = 5.0, 5  # factor of the longest batch's duration
_HUNG_SECONDS, _HUNG_FACTOR = 10.0, 10
_PROCESSES = Path("/proc")
_STATE, _TICKS = 0, slice(11, 13)  # fields after the name in parentheses, see proc_pid_stat(5)
_RUNNING = "R"  # also while a thread waits for a processor


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
            self._seconds_without_progress += self._seconds_available()

    def note_result(self) -> None:
        """Record that the engine has just sent a result: it responds again."""
        self._seconds_without_progress, self._computed = 0.0, None

    def _seconds_available(self) -> float:
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
