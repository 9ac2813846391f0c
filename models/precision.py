"""Precision classes: what a device computes in, how fast and how faithfully."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models import native
from models.config import EncoderConfig
from models.errors import ModelError
from models.layers import Layers, TorchLayers
from models.linear import Observed, Plain, Prepacked
from models.positions import Positions
from models.weights import Weights

FAITHFUL = 0.9995
"""The least cosine to float32, over all probe sentences, of a precision that `auto` chooses."""


@dataclass(frozen=True)
class Trial:
    """How a precision did on the probe sentences: the least cosine to float32, and the speed."""

    dtype: str
    cosine: float
    speedup: float  # times float32's


@dataclass(frozen=True)
class Precisions:
    """Builds the layers of one model in any precision that the device has."""

    config: EncoderConfig
    weights: Weights
    positions: Positions
    device: torch.device

    def supported(self) -> list[str]:
        """Those that run at full speed, float32 first."""
        if self.device.type != "cpu":
            return ["float32", "bfloat16", "float16"]
        compiled = [name for name in ("bfloat16", "int8") if self._isa(name)]
        return ["float32", *compiled] if compiled else ["float32"] + ["bfloat16"] * short()

    def check(self, dtype: str) -> None:
        """Raises ModelError where the device cannot compute in a precision at full speed."""
        if dtype in self.supported():
            return
        hint = ""
        if dtype in ("bfloat16", "int8") and self.device.type == "cpu":
            hint = " (it needs AVX-512 with BF16 or VNNI, and a C++ compiler at installation)"
        raise ModelError(
            f"dtype {dtype} is not supported on this {self.device.type}{hint}; "
            f"supported: {', '.join(self.supported())}"
        )

    def layers(self, dtype: str, observe: Callable[[Layers], object]) -> Layers:
        """The layers in a supported precision.

        observe: runs calibration sentences through layers, for int8.
        """
        isa = self._isa(dtype)
        if isa is not None:
            peaks = self._peaks(observe) if dtype == "int8" else None
            packed = native.Packed(self.weights, dtype, isa, peaks)
            return native.NativeLayers(self.config, packed, self.positions)
        kind = getattr(torch, dtype)
        onednn = self.device.type == "cpu" and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        layout = Prepacked(kind) if onednn else Plain(self.device, kind)
        return self._torch(layout)

    def _torch(self, layout: Plain | Prepacked | Observed) -> TorchLayers:
        return TorchLayers(self.config, self.weights, self.positions, layout, self.device)

    def _isa(self, dtype: str) -> str | None:
        fits = self.device.type == "cpu" and native.fits(self.config, self.positions)
        return native.isa(dtype) if fits else None

    def _peaks(self, observe: Callable[[Layers], object]) -> Mapping[str, Tensor]:
        layout = Observed()
        observe(self._torch(layout))
        return layout.peaks


def short() -> bool:
    """Whether torch's own bfloat16 is to be had on this processor.

    Emulated, it is up to a hundred times slower than float32. On a matrix unit, oneDNN sums in an
    order that depends on the number of rows: then a text's vector would depend on its batch.
    """
    return torch.cpu._is_avx512_bf16_supported() and not torch.cpu._is_amx_tile_supported()


Vectors = Callable[[Layers], npt.NDArray[np.float32]]
"""The unit vectors of the probe sentences, computed with some layers."""


@dataclass(frozen=True)
class Choice:
    """The layers that a model uses, and what was found out about their precision."""

    dtype: str
    layers: Layers
    trials: tuple[Trial, ...]


class Source(Protocol):
    """What `choose` chooses from: see Precisions."""

    def supported(self) -> list[str]: ...

    def check(self, dtype: str) -> None: ...

    def layers(self, dtype: str, observe: Vectors) -> Layers: ...


def choose(precisions: Source, wanted: str, vectors: Vectors) -> Choice:
    """Layers in a precision, or for 'auto' in the fastest one that is FAITHFUL on the probes.

    Raises ModelError where the device cannot compute in it at full speed.
    """
    if wanted != "auto":
        precisions.check(wanted)
    exact = precisions.layers("float32", vectors)
    names = [wanted] if wanted != "auto" else precisions.supported()
    others = [name for name in names if name != "float32"]
    best, trials = Choice("float32", exact, ()), [Trial("float32", 1.0, 1.0)]
    reference, base = _timed(exact, vectors) if others else (np.empty(0, np.float32), 0.0)
    fastest = 1.0
    for dtype in others:
        layers = precisions.layers(dtype, vectors)
        found, seconds = _timed(layers, vectors)
        cosine, speedup = float((found * reference).sum(axis=1).min()), base / seconds
        trials.append(Trial(dtype, round(cosine, 6), round(speedup, 2)))
        if wanted == dtype or (cosine >= FAITHFUL and speedup > _MARGIN * fastest):
            best, fastest = Choice(dtype, layers, ()), speedup
    return replace(best, trials=tuple(trials))


_MARGIN = 1.1  # so much faster must it be, or chance would decide between equals


def _timed(layers: Layers, vectors: Vectors) -> tuple[npt.NDArray[np.float32], float]:
    vectors(layers)  # what is built at first use
    start = time.perf_counter()
    found = vectors(layers)
    return found, time.perf_counter() - start
