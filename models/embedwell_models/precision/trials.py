"""Choice of a precision by speed and by accuracy relative to float32."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol

import torch

from embedwell_models.encoder.encoder import Encoder
from embedwell_models.vectors import Floats

log = logging.getLogger(__name__)

MIN_COSINE = 0.9995
"""Minimum cosine to float32, over all reference sentences, that `auto` accepts."""

MIN_ROUNDS, MAX_ROUNDS, ROUNDS_SECONDS = 3, 15, 0.4
"""Limits of the rounds in which `auto` times two precisions in turn, and of their seconds."""

Clock = Callable[[], float]
"""Monotonic clock in seconds."""

Embed = Callable[[Encoder], Floats]
"""Function that returns the unit vectors of the reference sentences for an encoder: (B, dim)."""


@dataclass(frozen=True)
class Trial:
    """Minimum cosine of a precision to float32 over the reference sentences, and its speedup."""

    dtype: str
    cosine: float
    speedup: float  # relative to float32


_FLOAT32 = Trial("float32", 1.0, 1.0)


@dataclass(frozen=True)
class PrecisionChoice:
    """Encoder in the chosen precision, and the trials of all compared precisions."""

    dtype: str
    encoder: Encoder
    trials: tuple[Trial, ...]


class EncoderFactoryProtocol(Protocol):
    """Methods of EncoderFactory that `build_in_precision` needs."""

    @property
    def min_speedup(self) -> float: ...

    def supported(self) -> list[str]: ...

    def check(self, dtype: str) -> None: ...

    def build(self, dtype: str) -> Encoder: ...


def build_in_precision(
    factory: EncoderFactoryProtocol,
    dtype: str,
    embed: Embed,
    trials: Sequence[Trial] | None = None,
    clock: Clock = time.perf_counter,
) -> PrecisionChoice:
    """Build the encoder in a precision; 'auto' is the fastest that is accurate enough.

    trials: trials of an earlier load in this precision, which are not repeated. Raises ModelError
    if the device does not support the precision at full speed.
    """
    comparison = _Comparison(factory, embed, clock)
    if dtype == "auto":
        return comparison.fastest()
    factory.check(dtype)
    if trials is not None:
        return PrecisionChoice(dtype, factory.build(dtype), tuple(trials))
    return comparison.with_float32(dtype)


@dataclass(frozen=True)
class _Comparison:
    factory: EncoderFactoryProtocol
    embed: Embed
    clock: Clock

    def fastest(self) -> PrecisionChoice:
        """Choose the fastest precision that is accurate enough."""
        float32, *others = self.factory.supported()
        best = PrecisionChoice(float32, self.factory.build(float32), (_FLOAT32,))
        if not others:
            return best
        expected = self.embed(best.encoder)
        for dtype in others:
            best = self._faster_of(best, dtype, expected)
        return best

    def _faster_of(self, best: PrecisionChoice, dtype: str, expected: Floats) -> PrecisionChoice:
        # Drop every reference to the slower encoder, which may take gigabytes.
        encoder = self.factory.build(dtype)
        # This first use also warms the encoder up.
        cosine = _min_cosine(self.embed(encoder), expected)
        ratio = self._median_speedup(best.encoder, encoder)
        best_speedup = next(trial.speedup for trial in best.trials if trial.dtype == best.dtype)
        trials = (*best.trials, Trial(dtype, cosine, round(best_speedup * ratio, 2)))
        if cosine >= MIN_COSINE and ratio > self.factory.min_speedup:
            return PrecisionChoice(dtype, encoder, trials)
        return replace(best, trials=trials)

    def _median_speedup(self, baseline: Encoder, encoder: Encoder) -> float:
        # The encoders take turns and the median counts: other work on the machine then slows both
        # encoders, or one encoder in a few rounds only.
        ratios: list[float] = []
        start = self.clock()
        while len(ratios) < MIN_ROUNDS or (
            len(ratios) < MAX_ROUNDS and self.clock() - start < ROUNDS_SECONDS
        ):
            ratios.append(self._seconds(baseline) / self._seconds(encoder))
        return median(ratios)

    def with_float32(self, dtype: str) -> PrecisionChoice:
        """Build the encoder in a precision; compare it with float32 if float32 fits the device."""
        if dtype == "float32":
            return PrecisionChoice(dtype, self.factory.build(dtype), (_FLOAT32,))
        reference = self._float32_reference()
        encoder = self.factory.build(dtype)
        if reference is None:
            return PrecisionChoice(dtype, encoder, ())
        expected, seconds = reference
        cosine = _min_cosine(self.embed(encoder), expected)
        trial = Trial(dtype, cosine, round(seconds / self._seconds(encoder), 2))
        return PrecisionChoice(dtype, encoder, (_FLOAT32, trial))

    def _float32_reference(self) -> tuple[Floats, float] | None:
        # Vectors and seconds of float32. The float32 encoder is freed before the other encoder is
        # built, because the device may hold only one.
        try:
            encoder = self.factory.build("float32")
            return self.embed(encoder), self._seconds(encoder)
        except torch.OutOfMemoryError as error:
            log.warning("float32 does not fit, so no precision is compared with it: %s", error)
        return None

    def _seconds(self, encoder: Encoder) -> float:
        start = self.clock()
        self.embed(encoder)
        return self.clock() - start


def _min_cosine(vectors: Floats, expected: Floats) -> float:
    return round(float((vectors * expected).sum(axis=1).min()), 6)
