"""Choice of a precision by speed and by accuracy relative to float32."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from embedwell_models.encoder.device_errors import is_out_of_memory
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.vectors import Floats

log = logging.getLogger(__name__)

MIN_COSINE, MIN_MEDIAN_COSINE = 0.9995, 0.9997
"""Least and median cosine to float32, over all reference texts, that `auto` accepts at least."""

LEAST_COSINES = {
    "float32": 0.99999,
    **dict.fromkeys(("bfloat16", "float16"), 0.999),
    "int8": 0.995,
    "int4": 0.8,
}
"""Cosine to exact vectors that each precision is expected to reach if it is asked for by name."""

MIN_SPEEDUP = 1.1
"""Minimum speedup over the best precision so far at which `auto` takes a lower one on a CPU.

Three quarters of the rounds must reach it, so that a machine whose times vary chooses the same each
time.
"""

MIN_ROUNDS, MAX_ROUNDS, ROUNDS_SECONDS = 5, 25, 0.4
"""Limits of the rounds in which `auto` times two precisions in turn, and of their seconds."""

_CLEAR = 1.1  # factor of the minimum speedup beyond which no further round is needed

Clock = Callable[[], float]
"""Monotonic clock in seconds."""

Embed = Callable[[Encoder], Floats]
"""Function that returns the unit vectors of the reference sentences for an encoder: (B, dim)."""


@dataclass(frozen=True)
class Trial:
    """Cosines of a precision to float32 over the reference sentences, and its speedup.

    speedup: relative to float32; None if the precision was asked for by name, because then float32
    is not loaded as a whole.
    """

    dtype: str
    cosine: float  # the least
    median_cosine: float
    speedup: float | None = None

    @property
    def is_accurate(self) -> bool:
        """Whether `auto` accepts it on a CPU."""
        return self.cosine >= MIN_COSINE and self.median_cosine >= MIN_MEDIAN_COSINE  # not NaN


_FLOAT32 = Trial("float32", 1.0, 1.0, 1.0)


def takes_bfloat16(dtype: str, trials: Sequence[Trial]) -> bool:
    """Whether layers after an encoder may compute in bfloat16. dtype: of the encoder."""
    accurate = any(each.dtype == "bfloat16" and each.is_accurate for each in trials)
    return dtype == "bfloat16" or (dtype == "int8" and accurate)


@dataclass(frozen=True)
class PrecisionChoice:
    """Encoder in the chosen precision, and the trials of all compared precisions."""

    dtype: str
    encoder: Encoder
    trials: tuple[Trial, ...]


class EncoderFactoryProtocol(Protocol):
    """Methods of a factory of one model's encoders that `build_in_precision` needs."""

    @property
    def half_precision(self) -> str | None: ...

    def supported(self) -> list[str]: ...

    def check(self, dtype: str) -> None: ...

    def build(self, dtype: str) -> Encoder: ...

    def build_reference(self) -> Encoder: ...


def build_in_precision(
    factory: EncoderFactoryProtocol,
    dtype: str,
    embed: Embed,
    trials: Sequence[Trial] | None = None,
    clock: Clock = time.perf_counter,
) -> PrecisionChoice:
    """Build the encoder in a precision; 'auto' is the fastest that is accurate enough.

    On a GPU, 'auto' is the factory's half precision. It is compared with float32 if the memory
    holds both. float32 replaces a float16 that is not accurate enough. A precision that
    is asked for by name is built in any case; the log warns if it is below LEAST_COSINES.

    trials: trials of an earlier load in this precision, which are not repeated. Raises ModelError
    if the device does not support the precision at full speed.
    """
    comparison = _Comparison(factory, embed, clock)
    if dtype == "auto":
        half = factory.half_precision
        return comparison.fastest() if half is None else comparison.half_or_float32(half)
    factory.check(dtype)
    if trials is None:
        choice = comparison.with_float32(dtype)
    else:
        choice = PrecisionChoice(dtype, factory.build(dtype), tuple(trials))
    for trial in choice.trials:
        if trial.dtype == dtype:  # `auto` has tried others, too
            _warn_of_inaccuracy(trial, LEAST_COSINES[dtype])
    return choice


@dataclass(frozen=True)
class _Comparison:
    factory: EncoderFactoryProtocol
    embed: Embed
    clock: Clock

    def fastest(self) -> PrecisionChoice:
        """Choose the fastest precision that is accurate enough."""
        # Weights of four bits are never accurate enough: they are for machines with little memory.
        float32, *others = (each for each in self.factory.supported() if each != "int4")
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
        trial = Trial(dtype, *_cosines(self.embed(encoder), expected))
        accurate = trial.is_accurate
        ratios = self._speedups(best.encoder, encoder, MAX_ROUNDS if accurate else 1)
        best_speedup = next(each.speedup for each in best.trials if each.dtype == best.dtype) or 1.0
        speedup = round(best_speedup * float(np.median(ratios)), 2)
        trials = (*best.trials, replace(trial, speedup=speedup))
        if accurate and np.quantile(ratios, 0.25) > MIN_SPEEDUP:
            return PrecisionChoice(dtype, encoder, trials)
        return replace(best, trials=trials)

    def _speedups(self, baseline: Encoder, encoder: Encoder, most: int) -> list[float]:
        # The encoders take turns, so that other work on the machine slows both, or one in a few
        # rounds only. A precision that is not accurate is timed for information alone.
        ratios: list[float] = []
        start = self.clock()
        while len(ratios) < min(MIN_ROUNDS, most) or (
            len(ratios) < most and self.clock() - start < ROUNDS_SECONDS and not _is_clear(ratios)
        ):
            ratios.append(self._seconds(baseline) / self._seconds(encoder))
        return ratios

    def half_or_float32(self, dtype: str) -> PrecisionChoice:
        """Build the encoder in bfloat16, or in float16 if that is accurate enough."""
        choice = self.with_float32(dtype)
        trials = choice.trials
        accurate = [_warn_of_inaccuracy(trial, MIN_COSINE) for trial in trials]
        if dtype == "bfloat16" or all(accurate):
            return choice
        del choice
        return PrecisionChoice("float32", self.factory.build("float32"), trials)

    def with_float32(self, dtype: str) -> PrecisionChoice:
        """Build the encoder in a precision; compare it with float32 if float32 fits the device."""
        if dtype == "float32":
            return PrecisionChoice(dtype, self.factory.build(dtype), (_FLOAT32,))
        # On a GPU, float32 gets the memory that remains. Otherwise a large model would start
        # slowly, or take the memory of other processes.
        on_gpu = self.factory.half_precision is not None
        encoder = self.factory.build(dtype) if on_gpu else None
        expected = self._float32_vectors()
        encoder = encoder or self.factory.build(dtype)
        if expected is None:
            return PrecisionChoice(dtype, encoder, ())
        trial = Trial(dtype, *_cosines(self.embed(encoder), expected))
        return PrecisionChoice(dtype, encoder, (_FLOAT32, trial))

    def _float32_vectors(self) -> Floats | None:
        # The encoder is freed at once.
        try:
            return self.embed(self.factory.build_reference())
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            log.warning("float32 does not fit, so no precision is compared with it: %s", error)
        return None

    def _seconds(self, encoder: Encoder) -> float:
        start = self.clock()
        self.embed(encoder)
        return self.clock() - start


def _is_clear(ratios: Sequence[float]) -> bool:
    low, high = np.quantile(ratios, [0.25, 0.75])
    return bool(low > MIN_SPEEDUP * _CLEAR or high < MIN_SPEEDUP)


def _cosines(vectors: Floats, expected: Floats) -> tuple[float, float]:
    # The minimum and the median. Sparse vectors of odd texts may be zero in every precision.
    cosines = np.where((vectors == expected).all(axis=1), 1, np.vecdot(vectors, expected))
    return round(float(cosines.min()), 6), round(float(np.median(cosines)), 6)


def _warn_of_inaccuracy(trial: Trial, least: float) -> bool:
    # Return whether the precision is accurate.
    accurate = trial.cosine >= least  # false for NaN
    if not accurate:
        log.warning(
            "%s: the vectors of the reference inputs have a cosine of only %.5f (median %.5f) "
            "with those in float32; at least %s is wanted. dtype float32 is exact and slower",
            *(trial.dtype, trial.cosine, trial.median_cosine, least),
        )
    return accurate
