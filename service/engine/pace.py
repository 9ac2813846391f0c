"""How fast the engine is when it is busy, by which a queue's length in seconds is known."""

from service.engine.shares import Shares

_WEIGHT = 0.2  # of the latest pass


class Pace:
    """rate: tokens per second of the whole engine, as lately measured."""

    def __init__(self, shares: Shares, rate: float) -> None:
        """rate: as measured before the first pass."""
        self._shares, self.rate = shares, rate

    def observe(self, tokens: int, seconds: float, apart: bool) -> None:
        """A pass took so long, all threads together or one of them apart."""
        # Small passes say nothing of what a full engine can do.
        if 2 * tokens >= self._shares.full(apart):
            rate = tokens / seconds * (self._shares.lanes if apart else 1)
            self.rate += _WEIGHT * (rate - self.rate)
