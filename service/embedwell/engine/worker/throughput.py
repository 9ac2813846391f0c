"""Measure tokens per second of the busy engine."""

from embedwell.engine.worker.batch_sizing import BatchSizing

_SMOOTHING = 0.2  # weight of the latest batch


class Throughput:
    """Moving average of the engine's speed.

    sizing: batch sizes at that speed.
    """

    def __init__(self, sizing: BatchSizing, rate: float) -> None:
        """rate: initial tokens per second."""
        self.sizing = sizing.with_rate(rate)
        self._latest_start = self._latest_end = 0.0  # rate of multi-threaded batches

    @property
    def rate(self) -> float:
        """Recently measured tokens per second of the whole engine."""
        return self.sizing.rate

    def expected_seconds(self, tokens: int, single_threaded: bool) -> float:
        """Return the seconds that a batch should take; 0 if the rate is 0."""
        return tokens / self.rate * self._concurrent(single_threaded) if self.rate else 0.0

    def observe(self, tokens: int, start: float, end: float, single_threaded: bool) -> float:
        """Record a batch, and return the time at which the device began it.

        A device starts a queued batch when it has finished the one before.
        """
        if single_threaded:
            self._update(tokens, end - start, single_threaded)
            return start
        previous_end, overtaken = self._latest_end, start < self._latest_start
        self._latest_start, self._latest_end = max(start, self._latest_start), end
        if overtaken:  # a later batch was reported first, so the end time is unknown
            return start
        self._update(tokens, end - max(start, previous_end), single_threaded)
        return max(start, previous_end)

    def _concurrent(self, single_threaded: bool) -> int:
        """Return how many such batches run at once."""
        return self.sizing.max_concurrent_batches if single_threaded else 1

    def _update(self, tokens: int, seconds: float, single_threaded: bool) -> None:
        # Small batches do not show the speed of a busy engine.
        if 4 * tokens >= self.sizing.full_batch(single_threaded) and seconds > 0:
            rate = tokens / seconds * self._concurrent(single_threaded)
            self.sizing = self.sizing.with_rate(self.rate + _SMOOTHING * (rate - self.rate))
