"""Sizes of batches in tokens, from the measured speed of the engine."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Protocol

import numpy as np

from embedwell_models.encoder.batch import IdRows
from embedwell_models.encoder.device import release_gpu_cache
from embedwell_models.encoder.device_errors import is_out_of_memory

log = logging.getLogger(__name__)

_MIN_TOKENS_PER_THREAD = 64  # fewer tokens do not justify reading all weights
_EFFICIENT_TOKENS_PER_THREAD = 256  # more tokens are not faster
_MAX_TOKENS_SINGLE_THREADED = 512  # more tokens delay the results
_TARGET_SECONDS = 0.03  # seconds of a batch on a CPU, for which new texts wait
_FEW_JOBS = 48  # with more jobs, each waits mostly for the others, and larger batches are faster
_BALANCE = 0.8  # share of threads that have work left while one thread computes a long text
_SMOOTHING = 0.2  # weight of the latest batch in the measured speed
_CPU_TOKENS = 2048  # more tokens are not faster, and delay short queries
_MIN_GPU_TOKENS, _MAX_GPU_TOKENS = 2048, 65536  # range tried on a GPU
_MIN_SPEEDUP = 1.05  # speedup for which the limit is doubled
_TYPICAL_LENGTH = 256  # tokens of a text: with longer texts, attention hides whether a GPU is full


@dataclass(frozen=True)
class BatchSizing:
    """Batch sizes in tokens, from the measured speed.

    max_batch_tokens: maximum tokens of a batch.
    max_concurrent_batches: number of batches that run at once, each on its own thread.
    prefetch_depth: batches that can wait on the device for the running one; 0 on a CPU.
    rate: recently measured tokens per second of the whole engine. Batches are smaller on a slow
        CPU, so that a query next to many long texts waits no longer than on a fast one.
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


class MeasuredDevice(Protocol):
    """The part of a device that matters here. type: cpu, or that of a GPU."""

    @property
    def type(self) -> str: ...


class MeasuredModel(Protocol):
    """The parts of a TokenIdEmbedder that are measured."""

    @property
    def device(self) -> MeasuredDevice: ...
    @property
    def max_length(self) -> int: ...
    def try_out(self, ids: IdRows) -> None: ...


@dataclass(frozen=True)
class BatchLimit:
    """Maximum tokens of a batch.

    rate: tokens per second of a full batch.
    reduced: whether more was wanted, which did not fit into the memory that was free.
    """

    tokens: int
    rate: float
    reduced: bool = False


def choose_batch_limit(model: MeasuredModel, requested: int) -> BatchLimit:
    """Choose the maximum tokens of a batch, and measure the speed with that limit.

    The limit is the requested one, or what fits of it into the device's memory. For 0 it is the
    default of a CPU, or one that fills the GPU.
    """
    if requested or model.device.type == "cpu":
        return _largest_that_fits(
            requested or _CPU_TOKENS, lambda tokens: _measure_rate(model, tokens, model.max_length)
        )
    typical = min(model.max_length, _TYPICAL_LENGTH)
    # The first pass of a size also allocates its memory.
    return find_gpu_batch_limit(
        lambda tokens: max(_measure_rate(model, tokens, typical) for _ in range(3))
    )


def find_gpu_batch_limit(rate: Callable[[int], float]) -> BatchLimit:
    """Double the limit while that is faster and fits into the device's memory."""
    best = _largest_that_fits(_MIN_GPU_TOKENS, rate)
    while not best.reduced and best.tokens < _MAX_GPU_TOKENS:
        try:
            doubled = replace(best, tokens=2 * best.tokens, rate=rate(2 * best.tokens))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            break
        if doubled.rate <= _MIN_SPEEDUP * best.rate:
            break
        best = doubled
    release_gpu_cache()  # which the largest trial filled
    return best


def _largest_that_fits(most: int, rate: Callable[[int], float]) -> BatchLimit:
    """Halve a limit until it fits into the device's memory; raises the last error otherwise."""
    tokens = most
    while True:
        try:
            speed = rate(tokens)
        except Exception as error:
            if tokens < 2 * _MIN_TOKENS_PER_THREAD or not is_out_of_memory(error):
                raise
        else:
            break
        release_gpu_cache()  # not inside the handler, whose error keeps the memory of the trial
        tokens //= 2
    if reduced := tokens < most:
        message = "a batch of %d tokens does not fit into the device's memory: %d do, %s"
        log.warning(message, most, tokens, "and longer texts may fail")
    return BatchLimit(tokens, speed, reduced)


def _measure_rate(model: MeasuredModel, tokens: int, longest: int) -> float:
    length = min(longest, tokens)
    rows = [np.zeros(length, dtype=np.int32)] * (tokens // length)
    start = time.perf_counter()
    model.try_out(rows)
    return length * len(rows) / (time.perf_counter() - start)
