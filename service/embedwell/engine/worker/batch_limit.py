"""Choose the maximum tokens of a batch, and measure the speed with that limit."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from embedwell_models.encoder.batch import Rows
from embedwell_models.encoder.device import is_out_of_memory, release_gpu_cache

_CPU_TOKENS = 2048  # more tokens are not faster, and delay short queries
_MIN_GPU_TOKENS, _MAX_GPU_TOKENS = 2048, 65536  # range tried on a GPU
_MIN_SPEEDUP = 1.05  # speedup for which the limit is doubled
_TYPICAL_LENGTH = 256  # tokens of a text: with longer texts, attention hides whether a GPU is full


class MeasuredDevice(Protocol):
    """The part of a device that matters here. type: cpu, or that of a GPU."""

    @property
    def type(self) -> str: ...


class MeasuredModel(Protocol):
    """The parts of embedwell_models.embedder.Embedder that are measured."""

    @property
    def device(self) -> MeasuredDevice: ...
    @property
    def max_length(self) -> int: ...
    def try_out(self, ids: Rows) -> None: ...


@dataclass(frozen=True)
class BatchLimit:
    """Maximum tokens of a batch.

    rate: tokens per second of a full batch.
    """

    tokens: int
    rate: float


def choose_batch_limit(model: MeasuredModel, requested: int) -> BatchLimit:
    """Choose the maximum tokens of a batch, and measure the speed with that limit.

    The limit is the requested one. For 0 it is the default of a CPU, or one that fills the GPU.
    """
    if requested or model.device.type == "cpu":
        tokens = requested or _CPU_TOKENS
        return BatchLimit(tokens, _measure_rate(model, tokens, model.max_length))
    typical = min(model.max_length, _TYPICAL_LENGTH)
    # The first pass of a size also allocates its memory.
    return find_gpu_batch_limit(
        lambda tokens: max(_measure_rate(model, tokens, typical) for _ in range(3))
    )


def find_gpu_batch_limit(rate: Callable[[int], float]) -> BatchLimit:
    """Double the limit while that is faster and fits into the device's memory."""
    best = BatchLimit(_MIN_GPU_TOKENS, rate(_MIN_GPU_TOKENS))
    while best.tokens < _MAX_GPU_TOKENS:
        try:
            doubled = BatchLimit(2 * best.tokens, rate(2 * best.tokens))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            break
        if doubled.rate <= _MIN_SPEEDUP * best.rate:
            break
        best = doubled
    release_gpu_cache()  # which the largest trial filled
    return best


def _measure_rate(model: MeasuredModel, tokens: int, longest: int) -> float:
    length = min(longest, tokens)
    rows = [np.zeros(length, dtype=np.int32)] * (tokens // length)
    start = time.perf_counter()
    model.try_out(rows)
    return length * len(rows) / (time.perf_counter() - start)
