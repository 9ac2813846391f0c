"""Precision classes: what a device computes in, how fast and how faithfully."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from models import isa, native
from models.assembly import TorchLayers
from models.compiled import Compiled
from models.encoder import Embeddings, Encoder, TorchEncoder
from models.errors import ModelError
from models.graphs import CudaGraphs, Graphs
from models.linear import Layout, Observed, fastest
from models.placement import of_layer
from models.positions import Positions
from models.stack import Stack
from models.vectors import Floats
from models.weights import Weights

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
            brain = torch.cuda.is_bf16_supported(including_emulation=False)
            return ["float32", "float16"] + ["bfloat16"] * brain
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
        config = self.embeddings.config
        return of_layer(config, self.weights, "layers.0", config.positions, self.device)

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
    if wanted != "auto":
        precisions.check(wanted)
    exact = precisions.encoder("float32", vectors)
    names = [wanted] if wanted != "auto" else precisions.supported()
    others = [name for name in names if name != "float32"]
    best, trials = Choice("float32", exact, ()), [Trial("float32", 1.0, 1.0)]
    reference, base = _timed(exact, vectors) if others else (np.empty(0, np.float32), 0.0)
    fastest = 1.0
    for dtype in others:
        encoder = precisions.encoder(dtype, vectors)
        found, seconds = _timed(encoder, vectors)
        cosine, speedup = float((found * reference).sum(axis=1).min()), base / seconds
        trials.append(Trial(dtype, round(cosine, 6), round(speedup, 2)))
        if wanted == dtype or (cosine >= FAITHFUL and speedup > precisions.margin * fastest):
            best, fastest = Choice(dtype, encoder, ()), speedup
    return replace(best, trials=tuple(trials))


def _timed(encoder: Encoder, vectors: Vectors) -> tuple[Floats, float]:
    vectors(encoder)  # what is built at first use
    start = time.perf_counter()
    found = vectors(encoder)
    return found, time.perf_counter() - start
