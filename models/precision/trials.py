"""Precision classes: what a device computes in, how fast and how faithfully."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Protocol

import torch
from torch import Tensor

from models.checkpoint.weights import Weights
from models.cpu_backend import encoder as native
from models.cpu_backend import library as isa
from models.cpu_backend.layer_weights import Stack
from models.cpu_backend.linear import Compiled
from models.encoder.device import ampere
from models.encoder.position_hooks import Positions
from models.encoder.position_tensors import of_layer
from models.errors import ModelError
from models.torch_backend.assembly import TorchLayers
from models.torch_backend.cuda_graphs import CudaGraphs, Graphs
from models.torch_backend.encoder import Embeddings, Encoder, TorchEncoder
from models.torch_backend.linear import Layout, Observed, fastest
from models.vectors import Floats

log = logging.getLogger(__name__)

FAITHFUL = 0.9995
"""The least cosine to float32, over all probe sentences, of a precision that `auto` chooses."""

LEAST_TURNS, MOST_TURNS, TURNS_SECONDS = 3, 15, 0.4
"""How often `auto` lets two precisions compute in turn, and after how long no more."""

Clock = Callable[[], float]
"""Seconds since some moment."""

Vectors = Callable[[Encoder], Floats]
"""The unit vectors of the probe sentences, as an encoder computes them."""


@dataclass(frozen=True)
class Trial:
    """How a precision did on the probe sentences: the least cosine to float32, and the speed."""

    dtype: str
    cosine: float
    speedup: float  # times float32's


_EXACT = Trial("float32", 1.0, 1.0)


@dataclass(frozen=True)
class Precisions:
    """Builds one model's encoder in any precision that the device has.

    features: those of the processor that may be used: see models.cpu_backend.library.
    """

    weights: Weights
    embeddings: Embeddings
    features: frozenset[str] = field(default_factory=isa.features)

    @property
    def device(self) -> torch.device:
        return self.embeddings.device

    def supported(self) -> list[str]:
        """Those that run at full speed, float32 first, then in the order in which `auto` tries."""
        if self.device.type != "cpu":
            return ["float32", "float16"] + ["bfloat16"] * ampere(self.device)
        compiled = [name for name in ("bfloat16", "int8") if self.isa(name)]
        return ["float32", *(compiled or ["bfloat16"] * short(self.features))]

    def isa(self, dtype: str) -> str | None:
        """The instruction set of the kernels in a precision; None for what torch computes."""
        return isa.best(dtype, self.features) if self.device.type == "cpu" else None

    @property
    def margin(self) -> float:
        """How many times as fast as the best so far a lower precision must be, for `auto`.

        On a CPU clearly faster, or chance would decide between equals. The probe sentences do not
        fill a GPU, so that their time says nothing: there the last one that is faithful is taken.
        """
        return 1.1 if self.device.type == "cpu" else 0.0

    def check(self, dtype: str) -> None:
        """Raises ModelError where the device cannot compute in a precision at full speed."""
        if dtype in self.supported():
            return
        hint = " (it is for CPUs)" if dtype == "int8" else ""
        if dtype in ("bfloat16", "int8") and self.device.type == "cpu":
            hint = " (it needs AVX-512 with BF16 or VNNI, and a C++ compiler at installation)"
        raise ModelError(
            f"dtype {dtype} is not supported on this {self.device.type}{hint}; "
            f"supported: {', '.join(self.supported())}"
        )

    def encoder(self, dtype: str, observe: Vectors) -> Encoder:
        """The encoder in a supported precision.

        observe: runs calibration sentences through an encoder, for int8.
        """
        best = self.isa(dtype)
        if best is None:
            return self._torch(fastest(self.device, getattr(torch, dtype)))
        sizes = self._sizes(observe) if dtype == "int8" else None
        config = self.embeddings.config
        if not native.fits(config, self.weights):
            return self._torch(Compiled(dtype, best, sizes))
        stack = Stack(config, self.weights, dtype, best, sizes)
        return native.NativeEncoder(self.embeddings, stack, self._scores())

    def _scores(self) -> Positions:
        config, like = self.embeddings.config, self.embeddings.tokens
        return of_layer(config, self.weights, "layers.0", config.positions, like)

    def _torch(self, layout: Layout) -> TorchEncoder:
        parts, device = self.embeddings, self.device
        layers = TorchLayers(parts.config, self.weights, layout, device)
        if not layers.steady:
            return TorchEncoder(parts, layers)
        return TorchEncoder(parts, layers, lambda whole: Graphs(whole, device, CudaGraphs(device)))

    def _sizes(self, observe: Vectors) -> Mapping[str, Tensor]:
        layout = Observed()
        observe(self._torch(layout))
        return layout.sizes()


def short(features: frozenset[str]) -> bool:
    """Whether torch's own bfloat16 is to be had on a processor of these features.

    Emulated, it is up to a hundred times slower than float32. On a matrix unit, oneDNN sums in an
    order that depends on the number of rows: then a text's vector would depend on its batch.
    """
    return (
        "avx512_bf16" in features
        and torch.cpu._is_avx512_bf16_supported()
        and not torch.cpu._is_amx_tile_supported()
    )


@dataclass(frozen=True)
class Choice:
    """The encoder that a model uses, and how the precisions that were tried did.

    isa: the instruction set of its kernels; None on torch alone.
    """

    dtype: str
    encoder: Encoder
    trials: tuple[Trial, ...]
    isa: str | None = None


class Source(Protocol):
    """What `choose` chooses from: see Precisions."""

    @property
    def margin(self) -> float: ...

    def supported(self) -> list[str]: ...

    def check(self, dtype: str) -> None: ...

    def encoder(self, dtype: str, observe: Vectors) -> Encoder: ...


def choose(
    precisions: Source,
    wanted: str,
    vectors: Vectors,
    known: Sequence[Trial] | None = None,
    clock: Clock = time.perf_counter,
) -> Choice:
    """The encoder in a precision, or for 'auto' in the fastest one that is FAITHFUL on the probes.

    known: trials of the wanted precision, which need not be repeated.
    Raises ModelError where the device cannot compute in it at full speed.
    """
    trials = _Trials(precisions, vectors, clock)
    if wanted == "auto":
        return trials.fastest()
    precisions.check(wanted)
    if known is not None:
        return Choice(wanted, precisions.encoder(wanted, vectors), tuple(known))
    return trials.of(wanted)


@dataclass(frozen=True)
class _Trials:
    precisions: Source
    vectors: Vectors
    clock: Clock

    def fastest(self) -> Choice:
        exact, *others = self.precisions.supported()
        best = Choice(exact, self.precisions.encoder(exact, self.vectors), (_EXACT,))
        if not others:
            return best
        expected = self.vectors(best.encoder)
        for dtype in others:
            best = self._better(best, dtype, expected)
        return best

    def _better(self, best: Choice, dtype: str, expected: Floats) -> Choice:
        # The encoder that loses is held by nobody afterwards: a model may take gigabytes.
        encoder = self.precisions.encoder(dtype, self.vectors)
        cosine = _cosine(self.vectors(encoder), expected)  # which builds what first use builds
        ratio = self._speedup(best.encoder, encoder)
        speedup = next(trial.speedup for trial in best.trials if trial.dtype == best.dtype)
        trials = (*best.trials, Trial(dtype, cosine, round(speedup * ratio, 2)))
        if cosine >= FAITHFUL and ratio > self.precisions.margin:
            return Choice(dtype, encoder, trials)
        return replace(best, trials=trials)

    def _speedup(self, former: Encoder, encoder: Encoder) -> float:
        """How many times as fast as a former one an encoder is.

        They take turns, and the median of the turns counts: what else the machine does slows both,
        or one of them in some turns alone.
        """
        ratios: list[float] = []
        start = self.clock()
        while len(ratios) < LEAST_TURNS or (
            len(ratios) < MOST_TURNS and self.clock() - start < TURNS_SECONDS
        ):
            ratios.append(self._seconds(former) / self._seconds(encoder))
        return median(ratios)

    def of(self, dtype: str) -> Choice:
        """The encoder in a precision, compared with float32 where this fits the device, too."""
        if dtype == "float32":
            return Choice(dtype, self.precisions.encoder(dtype, self.vectors), (_EXACT,))
        reference = self._reference()
        encoder = self.precisions.encoder(dtype, self.vectors)
        if reference is None:
            return Choice(dtype, encoder, ())
        expected, seconds = reference
        cosine = _cosine(self.vectors(encoder), expected)
        trial = Trial(dtype, cosine, round(seconds / self._seconds(encoder), 2))
        return Choice(dtype, encoder, (_EXACT, trial))

    def _reference(self) -> tuple[Floats, float] | None:
        # What float32 computes, and in what time; it is gone before another precision is built. A
        # model may fit the device in the precision that is asked for alone.
        try:
            encoder = self.precisions.encoder("float32", self.vectors)
            return self.vectors(encoder), self._seconds(encoder)
        except torch.OutOfMemoryError as error:
            log.warning("float32 does not fit, so that nothing is compared with it: %s", error)
        return None

    def _seconds(self, encoder: Encoder) -> float:
        start = self.clock()
        self.vectors(encoder)
        return self.clock() - start


def _cosine(found: Floats, expected: Floats) -> float:
    return round(float((found * expected).sum(axis=1).min()), 6)
