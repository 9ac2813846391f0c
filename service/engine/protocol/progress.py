"""Signs of life of the engine, in the counters that all processes share."""

from collections.abc import Hashable

from service.process.shared_counters import SharedCounters, Slot

_TICK = 1.0  # seconds between two looks
_SILENT, _SILENT_PASSES = 5.0, 5  # seconds, and times the expected length of a pass
_HANGS, _HANGS_PASSES = 10.0, 10
_PASSES, _EXPECTED = int(Slot.ENGINE_PASSES), int(Slot.ENGINE_EXPECTED)  # faster than an enum's


class Progress:
    """Tells of each forward pass when it begins and ends; the caller takes care of threads."""

    def __init__(self, counters: SharedCounters | None = None) -> None:
        self._row = (counters or SharedCounters.private()).row
        self._row[Slot.ENGINE_EXPECTED] = 0.0  # the engine before may have died in a pass
        self._running: dict[Hashable, float] = {}

    def begin(self, one: Hashable, seconds: float) -> None:
        """A pass begins that should take so long."""
        self._running[one] = seconds
        self._note()

    def end(self, one: Hashable) -> None:
        """It has ended."""
        del self._running[one]
        self._note()

    def _note(self) -> None:
        self._row[_EXPECTED] = max(self._running.values()) if self._running else 0.0
        self._row[_PASSES] += 1


class Liveness:
    """Whether an engine hangs: jobs wait, but no pass has begun or ended for too long.

    How long that is depends on what the longest pass that runs should take. Time is counted in
    looks: where this process stands still, with or without the engine, that is not held against it.
    """

    def __init__(self, counters: SharedCounters) -> None:
        self._counters = counters
        self._batches, self._quiet = -1.0, 0.0

    def look(self, waiting: bool) -> None:
        """Call once a second. waiting: whether there is a job that the engine should do."""
        batches = self._counters.total(Slot.ENGINE_PASSES)
        moves = batches != self._batches or not waiting
        self._batches, self._quiet = batches, 0.0 if moves else self._quiet + _TICK

    @property
    def silent(self) -> bool:
        """Whether it is better to send it nothing."""
        return self._quiet >= _SILENT and self._quiet >= _SILENT_PASSES * self._expected

    @property
    def hangs(self) -> bool:
        """Whether it is better to end it."""
        return self._quiet >= _HANGS and self._quiet >= _HANGS_PASSES * self._expected

    @property
    def _expected(self) -> float:
        return self._counters.total(Slot.ENGINE_EXPECTED)
