"""Compute how many tokens go into a batch."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

_MIN_TOKENS_PER_THREAD = 64  # fewer do not pay for reading all weights
_EFFICIENT_TOKENS_PER_THREAD = 256  # more are no faster
_MAX_TOKENS_SINGLE_THREADED = 512  # more delay the results
_TARGET_SECONDS = 0.03  # of a batch on a CPU: new texts wait for one
_FEW_JOBS = 48  # each of more waits mostly for the others, and larger batches are faster
_BALANCE = 0.8  # share of threads with work left while one computes a long text


@dataclass(frozen=True)
class BatchSizing:
    """Batch sizes in tokens, from the measured speed.

    max_batch_tokens: maximum tokens of a batch. max_concurrent_batches: each on its own thread.
    prefetch_depth: batches that can wait on the device for the running one; 0 on a CPU.

    rate: tokens per second of the whole engine, as lately measured. Batches are smaller on a
    slow CPU, so that a query beside many long texts waits no longer than on a fast one.
    """

    max_batch_tokens: int
    max_concurrent_batches: int = 1
    prefetch_depth: int = 0
    rate: float = inf

    def with_rate(self, rate: float) -> "BatchSizing":
        """Return the same sizing at another rate."""
        return replace(self, rate=rate)

    def use_one_thread(self, waiting: int, batches: int) -> bool:
        """Whether to compute on one thread. waiting: tokens. batches: how many are running."""
        return self.max_concurrent_batches > 1 and (
            batches > 0 or waiting > self.full_multi_threaded
        )

    def next_batch_tokens(self, waiting: int, single_threaded: bool, jobs: int = 1) -> int:
        """Maximum tokens of the next batch; single-threaded ones are sized to end together.

        waiting: tokens. jobs: how many are unfinished.
        """
        if not single_threaded:
            return self.full_multi_threaded
        max_concurrent_batches = self.max_concurrent_batches
        more = int(self.full_single_threaded * jobs / _FEW_JOBS)
        enough = min(self.max_batch_tokens, _MAX_TOKENS_SINGLE_THREADED)
        limit = max(self.full_single_threaded, min(more, enough))
        rounds = max(1, -(-waiting // (max_concurrent_batches * limit)))
        return min(
            limit, max(_MIN_TOKENS_PER_THREAD, -(-waiting // (max_concurrent_batches * rounds)))
        )

    def is_long(self, tokens: int) -> bool:
        """Whether a text exceeds a single-threaded batch, so that others must not wait for it."""
        return tokens > self.full_single_threaded

    def use_all_threads(self, longest: int, waiting: int) -> bool:
        """Whether all threads should compute a long text.

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
        """Tokens of a batch on all threads, or a device, when the engine is busy."""
        return self._full_batch(
            self.max_concurrent_batches, _EFFICIENT_TOKENS_PER_THREAD * self.max_concurrent_batches
        )

    def _full_batch(self, threads: int, enough: int) -> int:
        if self.prefetch_depth:  # a device, which is slower with fewer
            return self.max_batch_tokens
        limit = (
            self.max_batch_tokens
            if self.max_concurrent_batches == 1
            else min(self.max_batch_tokens, enough)
        )
        target = _TARGET_SECONDS * self.rate * threads / self.max_concurrent_batches
        return int(min(limit, max(target, _MIN_TOKENS_PER_THREAD * threads)))
