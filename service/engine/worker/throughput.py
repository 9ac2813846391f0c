"""The measured tokens per second of the busy engine, by which queues are known in seconds."""

from service.engine.worker.batch_sizing import BatchSizing

_WEIGHT = 0.2  # of the latest pass


class Throughput:
    """sizing: of batches at the rate that was measured lately."""

    def __init__(self, sizing: BatchSizing, rate: float) -> None:
        """rate: as measured before the first pass."""
        self.sizing = sizing.at(rate)
        self._began = self._ended = 0.0  # of the latest passes

    @property
    def rate(self) -> float:
        """Tokens per second of the whole engine, as lately measured."""
        return self.sizing.rate

    def expected(self, tokens: int, apart: bool) -> float:
        """Seconds that a pass of so many tokens should take."""
        return tokens / self.rate * (self.sizing.lanes if apart else 1) if self.rate else 0.0

    def observe(self, tokens: int, start: float, end: float, apart: bool) -> float:
        """A pass took from one time to another, all threads together or one of them apart.

        Returns when it really began: a device does when it is done with the pass before.
        """
        if apart:
            self._note(tokens, end - start, apart)
            return start
        before, overtaken = self._ended, start < self._began
        self._began, self._ended = max(start, self._began), end
        if overtaken:  # by the answer of one that was computed after it: who knows when it ended
            return start
        self._note(tokens, end - max(start, before), apart)
        return max(start, before)

    def _note(self, tokens: int, seconds: float, apart: bool) -> None:
        # Small passes say nothing of what a full engine can do.
        if 4 * tokens >= self.sizing.full(apart) and seconds > 0:
            rate = tokens / seconds * (self.sizing.lanes if apart else 1)
            self.sizing = self.sizing.at(self.rate + _WEIGHT * (rate - self.rate))
