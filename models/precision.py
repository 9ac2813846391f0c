"""Precision classes: what a device computes in, how fast and how faithfully."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from models import isa, native
from models.assembly import TorchLayers
from models.compiled import Compiled
from models.device import ampere
from models.encoder import Embeddings, Encoder, TorchEncoder
from models.errors import ModelError
from models.graphs import CudaGraphs, Graphs
from models.linear import Layout, Observed, fastest
from models.placement import of_layer
from models.positions import Positions
from models.stack import Stack
from models.vectors import Floats
from models.weights import Weights

log = logging.getLogger(__name__)

FAITHFUL = 0.9995
"""The least cosine to float32, over all probe sentences, of a precision that `auto` chooses."""

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
    """Builds one model's encoder in any precision that the device has."""

    weights: Weights
    embeddings: Embeddings

    @property
    def device(self) -> torch.device:
        return self.embeddings.device

    def supported(self) -> list[str]:
        """Those that run at full speed, float32 first, then in the order in which `auto` tries."""
        if self.device.type != "cpu":
            return ["float32", "float16"] + ["bfloat16"] * ampere(self.device)
        compiled = [name for name in ("bfloat16", "int8") if isa.best(name)]
        return ["float32", *compiled] if compiled else ["float32"] + ["bfloat16"] * short()

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
        best = isa.best(dtype) if self.device.type == "cpu" else None
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


def short() -> bool:
    """Whether torch's own bfloat16 is to be had on this processor.

    Emulated, it is up to a hundred times slower than float32. On a matrix unit, oneDNN sums in an
    order that depends on the number of rows: then a text's vector would depend on its batch.
    """
    return torch.cpu._is_avx512_bf16_supported() and not torch.cpu._is_amx_tile_supported()


@dataclass(frozen=True)
class Choice:
    """The encoder that a model uses, and what was found out about its precision."""

    dtype: str
    encoder: Encoder
    trials: tuple[Trial, ...]


class Source(Protocol):
    """What `choose` chooses from: see Precisions."""

    @property
    def margin(self) -> float: ...

    def supported(self) -> list[str]: ...

    def check(self, dtype: str) -> None: ...

    def encoder(self, dtype: str, observe: Vectors) -> Encoder: ...


def choose(precisions: Source, wanted: str, vectors: Vectors) -> Choice:
    """The encoder in a precision, or for 'auto' in the fastest one that is FAITHFUL on the probes.

    Raises ModelError where the device cannot compute in it at full speed.
    """
    if wanted == "auto":
        return _fastest(precisions, vectors)
    precisions.check(wanted)
    if wanted == "float32":
        return Choice(wanted, precisions.encoder(wanted, vectors), (_EXACT,))
    reference = _reference(precisions, vectors)
    encoder = precisions.encoder(wanted, vectors)
    trials = (_EXACT, reference.trial(wanted, encoder)) if reference else ()
    return Choice(wanted, encoder, trials)


def _fastest(precisions: Source, vectors: Vectors) -> Choice:
    exact, *others = precisions.supported()
    best = Choice(exact, precisions.encoder(exact, vectors), (_EXACT,))
    if not others:
        return best
    reference, trials, fastest = _Reference(best.encoder, vectors), [_EXACT], 1.0
    for dtype in others:
        encoder = precisions.encoder(dtype, vectors)
        trial = reference.trial(dtype, encoder)
        trials.append(trial)
        if trial.cosine >= FAITHFUL and trial.speedup > precisions.margin * fastest:
            best, fastest = Choice(dtype, encoder, ()), trial.speedup
    return replace(best, trials=tuple(trials))


class _Reference:
    """What float32 makes of the probe sentences, and in what time; the encoder is not kept."""

    def __init__(self, exact: Encoder, vectors: Vectors) -> None:
        self._vectors = vectors
        self._found, self._seconds = _timed(exact, vectors)

    def trial(self, dtype: str, encoder: Encoder) -> Trial:
        found, seconds = _timed(encoder, self._vectors)
        cosine = float((found * self._found).sum(axis=1).min())
        return Trial(dtype, round(cosine, 6), round(self._seconds / seconds, 2))


def _reference(precisions: Source, vectors: Vectors) -> _Reference | None:
    # A model may fit the device in the precision that is asked for alone.
    try:
        return _Reference(precisions.encoder("float32", vectors), vectors)
    except torch.OutOfMemoryError as error:
        log.warning("float32 does not fit, so that nothing is compared with it: %s", error)
    return None


def _timed(encoder: Encoder, vectors: Vectors) -> tuple[Floats, float]:
    vectors(encoder)  # what is built at first use
    start = time.perf_counter()
    found = vectors(encoder)
    return found, time.perf_counter() - start
