"""How fast the engine is when it is busy, by which a queue's length in seconds is known."""

from service.engine.shares import Shares

_WEIGHT = 0.2  # of the latest pass


class Pace:
    """rate: tokens per second of the whole engine, as lately measured."""

    def __init__(self, shares: Shares, rate: float) -> None:
        """rate: as measured before the first pass."""
        self._shares, self.rate = shares, rate
        self._ended = 0.0  # the pass before

    def observe(self, tokens: int, start: float, end: float, apart: bool) -> None:
        """A pass took from one time to another, all threads together or one of them apart."""
        if not apart:  # a device begins when it is done with the one before
            start, self._ended = max(start, self._ended), end
        # Small passes say nothing of what a full engine can do.
        if 2 * tokens >= self._shares.full(apart):
            rate = tokens / (end - start) * (self._shares.lanes if apart else 1)
            self.rate += _WEIGHT * (rate - self.rate)
