"""How fast the engine says that it is, and how far that can be relied on."""

import time
from collections.abc import Callable

_CHANGES = 5  # until what was measured at the start counts for a third
_FRESH = 300.0  # seconds; what was slow then may be fast by now


class Rate:
    """Tokens per second of a full engine.

    latest: as last reported; 0: not known yet. An engine begins with the rate of one pass, cold
    and of one length, and full passes alone change it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._changes, self._changed = clock, -1, 0.0
        self.latest = 0.0

    def note(self, rate: float) -> None:
        """What came with an answer."""
        if rate != self.latest:
            self.latest, self._changed = rate, self._clock()
            self._changes += 1

    @property
    def measured(self) -> float:
        """The latest, if it was lately measured under load, and not once; else 0."""
        sure = self._changes >= _CHANGES and self._clock() - self._changed < _FRESH
        return self.latest if sure else 0.0
