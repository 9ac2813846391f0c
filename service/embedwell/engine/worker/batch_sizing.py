"""Compute how many tokens go into a batch."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

_MIN_TOKENS_PER_THREAD = 64  # fewer tokens do not justify reading all weights
_EFFICIENT_TOKENS_PER_THREAD = 256  # more tokens are not faster
_MAX_TOKENS_SINGLE_THREADED = 512  # more tokens delay the results
_TARGET_SECONDS = 0.03  # seconds of a batch on a CPU, for which new texts wait
_FEW_JOBS = 48  # with more jobs, each waits mostly for the others, and larger batches are faster
_BALANCE = 0.8  # share of threads that have work left while one thread computes a long text


@dataclass(frozen=True)
class BatchSizing:
    """Batch sizes in tokens, from the measured speed.

    max_batch_tokens: maximum tokens of a batch.
    max_concurrent_batches: number of batches that run at once, each on its own thread.
    prefetch_depth: batches that can wait on the device for the running one; 0 on a CPU.
    rate: recently measured tokens per second of the whole engine. Batches are smaller on a slow
        CPU, so that a query beside many long texts waits no longer than on a fast one.
    """

    max_batch_tokens: int
    max_concurrent_batches: int = 1
    prefetch_depth: int = 0
    rate: float = inf

    def with_rate(self, rate: float) -> "BatchSizing":
        """Return the same sizing at another rate."""
        return replace(self, rate=rate)

    def use_one_thread(self, waiting: int, batches: int) -> bool:
        """Return whether to compute on one thread.

        waiting: tokens of waiting texts.
        batches: number of running batches.
        """
        return self.max_concurrent_batches > 1 and (
            batches > 0 or waiting > self.full_multi_threaded
        )

    def next_batch_tokens(self, waiting: int, single_threaded: bool, jobs: int = 1) -> int:
        """Return the maximum tokens of the next batch.

        Single-threaded batches are sized to end together.

        waiting: tokens of waiting texts.
        jobs: number of unfinished jobs.
        """
        if not single_threaded:
            return self.full_multi_threaded
        more = int(self.full_single_threaded * jobs / _FEW_JOBS)
        enough = min(self.max_batch_tokens, _MAX_TOKENS_SINGLE_THREADED)
        limit = max(self.full_single_threaded, min(more, enough))
        rounds = max(1, -(-waiting // (self.max_concurrent_batches * limit)))
        equal_share = -(-waiting // (self.max_concurrent_batches * rounds))
        return min(limit, max(_MIN_TOKENS_PER_THREAD, equal_share))

    def is_long(self, tokens: int) -> bool:
        """Return whether a text exceeds a single-threaded batch; others must not wait for it."""
        return tokens > self.full_single_threaded

    def use_all_threads(self, longest: int, waiting: int) -> bool:
        """Return whether all threads should compute a long text.

        On one thread it would still run long after the others finish the rest of the queue.
        """
        return waiting < _BALANCE * self.max_concurrent_batches * longest

    def full_batch(self, single_threaded: bool) -> int:
        """Tokens of a batch when the engine is busy."""
        return self.full_single_threaded if single_threaded else self.full_multi_threaded

    @cached_property
    def full_single_threaded(self) -> int:
        """Tokens of a batch on one thread when the engine is busy."""
        return self._full_batch(1, _MAX_TOKENS_SINGLE_THREADED)

    @cached_property
    def full_multi_threaded(self) -> int:
        """Tokens of a batch on all threads, or on a device, when the engine is busy."""
        threads = self.max_concurrent_batches
        return self._full_batch(threads, _EFFICIENT_TOKENS_PER_THREAD * threads)

    def _full_batch(self, threads: int, enough: int) -> int:
        if self.prefetch_depth:  # a device, which is slower with fewer tokens
            return self.max_batch_tokens
        several = self.max_concurrent_batches > 1
        limit = min(self.max_batch_tokens, enough) if several else self.max_batch_tokens
        target = _TARGET_SECONDS * self.rate * threads / self.max_concurrent_batches
        return int(min(limit, max(target, _MIN_TOKENS_PER_THREAD * threads)))
