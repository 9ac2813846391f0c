"""How many tokens a forward pass has at most, and how many a second the engine computes then."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from models.encoder.batch import Rows
from models.vectors import Floats

_CPU = 2048  # more are no faster, and a query waits for them
_FIRST, _LAST = 2048, 65536  # of those that are tried on a GPU
_GAIN = 1.05  # so much faster must twice the tokens be
_TYPICAL = 256  # tokens of a text: in longer ones attention hides whether a GPU is full


class Model(Protocol):
    """What is measured: see models.embedder."""

    @property
    def device(self) -> torch.device: ...
    @property
    def max_length(self) -> int: ...
    def encode(self, ids: Rows) -> Floats: ...


@dataclass(frozen=True)
class Budget:
    """The most tokens of a pass. rate: tokens per second of a full one."""

    tokens: int
    rate: float


def choose(model: Model, asked: int) -> Budget:
    """The budget that is asked for; for 0 that of a CPU, or what fills a GPU."""
    if asked or model.device.type == "cpu":
        tokens = asked or _CPU
        return Budget(tokens, _rate(model, tokens, model.max_length))
    typical = min(model.max_length, _TYPICAL)
    # The first pass of a size also waits for its memory.
    return grow(lambda tokens: max(_rate(model, tokens, typical) for _ in range(3)))


def grow(rate: Callable[[int], float]) -> Budget:
    """The largest budget, doubled as long as that pays and the device's memory holds it."""
    best = Budget(_FIRST, rate(_FIRST))
    while best.tokens < _LAST:
        try:
            twice = Budget(2 * best.tokens, rate(2 * best.tokens))
        except torch.OutOfMemoryError:
            break
        if twice.rate <= _GAIN * best.rate:
            break
        best = twice
    torch.cuda.empty_cache()  # what the larger ones took is better free
    return best


def _rate(model: Model, tokens: int, longest: int) -> float:
    length = min(longest, tokens)
    rows = [np.zeros(length, dtype=np.int32)] * (tokens // length)
    start = time.perf_counter()
    model.encode(rows)
    return length * len(rows) / (time.perf_counter() - start)
