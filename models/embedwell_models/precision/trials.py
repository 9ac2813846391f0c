"""Chooses a precision by its speed and by its accuracy relative to float32."""

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
"""The lowest cosine to float32, over all reference sentences, that `auto` accepts."""

MIN_ROUNDS, MAX_ROUNDS, ROUNDS_SECONDS = 3, 15, 0.4
"""Limits of the rounds in which `auto` times two precisions in turn, and of their seconds."""

Clock = Callable[[], float]
"""A monotonic clock, in seconds."""

Embed = Callable[[Encoder], Floats]
"""Returns the unit vectors of the reference sentences, as an encoder computes them: (B, dim)."""


@dataclass(frozen=True)
class Trial:
    """A precision's lowest cosine to float32 over the reference sentences, and its speedup."""

    dtype: str
    cosine: float
    speedup: float  # relative to float32


_FLOAT32 = Trial("float32", 1.0, 1.0)


@dataclass(frozen=True)
class PrecisionChoice:
    """The encoder of the chosen precision, and the trials of all that were compared."""

    dtype: str
    encoder: Encoder
    trials: tuple[Trial, ...]


class EncoderFactoryProtocol(Protocol):
    """The methods of EncoderFactory that building in a chosen precision needs."""

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
    """Build the encoder in a precision; for 'auto' in the fastest one that is accurate enough.

    trials: those of an earlier load in this precision, which are then not repeated.
    Raises ModelError if the device does not support the precision at full speed.
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
        # Nothing refers to the slower encoder afterwards: a model may take gigabytes.
        encoder = self.factory.build(dtype)
        cosine = _min_cosine(self.embed(encoder), expected)  # this first use also warms it up
        ratio = self._median_speedup(best.encoder, encoder)
        best_speedup = next(trial.speedup for trial in best.trials if trial.dtype == best.dtype)
        trials = (*best.trials, Trial(dtype, cosine, round(best_speedup * ratio, 2)))
        if cosine >= MIN_COSINE and ratio > self.factory.min_speedup:
            return PrecisionChoice(dtype, encoder, trials)
        return replace(best, trials=trials)

    def _median_speedup(self, baseline: Encoder, encoder: Encoder) -> float:
        # The encoders take turns and the median counts: other work on the machine slows both, or
        # one of them in a few rounds only.
        ratios: list[float] = []
        start = self.clock()
        while len(ratios) < MIN_ROUNDS or (
            len(ratios) < MAX_ROUNDS and self.clock() - start < ROUNDS_SECONDS
        ):
            ratios.append(self._seconds(baseline) / self._seconds(encoder))
        return median(ratios)

    def with_float32(self, dtype: str) -> PrecisionChoice:
        """Build the encoder in a precision, and compare it with float32 if that fits the device."""
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
        # The vectors and seconds of float32. Its encoder is freed before the other one is built:
        # only one of them may fit the device.
        try:
            encoder = self.factory.build("float32")
            return self.embed(encoder), self._seconds(encoder)
        except torch.OutOfMemoryError as error:
            log.warning("float32 does not fit, so that nothing is compared with it: %s", error)
        return None

    def _seconds(self, encoder: Encoder) -> float:
        start = self.clock()
        self.embed(encoder)
        return self.clock() - start


def _min_cosine(vectors: Floats, expected: Floats) -> float:
    return round(float((vectors * expected).sum(axis=1).min()), 6)
