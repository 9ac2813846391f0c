"""Speed that the engine reports, and its reliability."""

import time
from collections.abc import Callable

_MIN_CHANGES = 5  # after five, a third of the moving average is still the initial value
_MAX_AGE = 300.0  # seconds, after which the speed may have changed


class ReportedRate:
    """Tokens per second of a saturated engine.

    latest: the last report; 0 if unknown. An engine starts with the rate of a single cold batch of
        equally long texts; only full batches update it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._changes, self._changed = clock, -1, 0.0
        self.latest = 0.0

    def update(self, rate: float) -> None:
        """Record the rate reported with a result."""
        if rate != self.latest:
            self.latest, self._changed = rate, self._clock()
            self._changes += 1

    @property
    def reliable_rate(self) -> float:
        """The latest rate if it was measured several times under load and recently, else 0."""
        recent = self._clock() - self._changed < _MAX_AGE
        return self.latest if recent and self._changes >= _MIN_CHANGES else 0.0
