"""Detect a hung engine by the progress that it reports in the shared counters."""

from collections.abc import Hashable

from embedwell.engine.wire.shared_counters import CounterSlot, SharedCounters

_CHECK_INTERVAL = 1.0  # seconds
_UNRESPONSIVE_SECONDS, _UNRESPONSIVE_FACTOR = 5.0, 5  # factor of the longest batch's duration
_HUNG_SECONDS, _HUNG_FACTOR = 10.0, 10
# Plain integers index faster than an enum's members.
_BATCHES, _EXPECTED = int(CounterSlot.ENGINE_BATCHES), int(CounterSlot.ENGINE_EXPECTED_SECONDS)


class EngineProgress:
    """Reports the start and end of each batch; not thread-safe."""

    def __init__(self, counters: SharedCounters | None = None) -> None:
        """counters: those of the engine's row; private ones by default."""
        self._row = (counters or SharedCounters.private()).row
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
    checks, so that time in which this process was suspended does not count.
    """

    def __init__(self, counters: SharedCounters) -> None:
        self._counters = counters
        self._batches, self._seconds_without_progress = -1.0, 0.0

    def check(self, waiting: bool) -> None:
        """Compare with the last check; call once a second.

        waiting: whether the engine has jobs.
        """
        batches = self._counters.total(CounterSlot.ENGINE_BATCHES)
        progressed = batches != self._batches or not waiting
        self._batches = batches
        self._seconds_without_progress += _CHECK_INTERVAL
        if progressed:
            self._seconds_without_progress = 0.0

    @property
    def unresponsive(self) -> bool:
        """Whether to send the engine no more jobs."""
        return self._exceeds(_UNRESPONSIVE_SECONDS, _UNRESPONSIVE_FACTOR)

    @property
    def hung(self) -> bool:
        """Whether to kill the engine."""
        return self._exceeds(_HUNG_SECONDS, _HUNG_FACTOR)

    def _exceeds(self, seconds: float, factor: int) -> bool:
        expected = self._counters.total(CounterSlot.ENGINE_EXPECTED_SECONDS)
        return self._seconds_without_progress >= max(seconds, factor * expected)
