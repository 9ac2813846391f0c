"""Packing of matrices into the panels that the kernels read."""

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.cpu_backend.abi import Matrix
from embedwell_models.cpu_backend.quantization import InputObserver, Magnitudes, quantize_weight

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}
PANEL = 16  # columns of a panel
_TILE = 32, 64  # outputs and inputs of a tile; the kernels compute multiples of both


@dataclass(frozen=True)
class Packing:
    """Precision of packed weights.

    input_magnitudes: for int8. observer: observes the inputs of layers in float32, to calibrate
    int8.
    """

    dtype: str
    input_magnitudes: Magnitudes = field(default_factory=dict)
    observer: InputObserver | None = None


class WeightPacker:
    """Packer of weights, and owner of the memory that the kernels address."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._tensors: list[Tensor] = []

    def matrix(self, weight: Tensor, bias: Tensor, name: str) -> Matrix:
        """Pack weight (out, in) and bias (out,) of a linear layer, zero-padded to whole tiles."""
        rows, columns = padding_to_tiles(weight)
        weight, bias = F.pad(weight, (0, columns, 0, rows)), F.pad(bias, (0, rows))
        packing = self._packing
        if packing.dtype != "int8":
            panels = self._panels(weight.to(DTYPES[packing.dtype]))
            observed = packing.observer and packing.observer.address(name, weight.shape[1])
            return Matrix(panels=panels, bias=self.retain(bias), observed=observed)
        inputs = packing.input_magnitudes[name]
        inputs = np.pad(inputs, (0, weight.shape[1] - len(inputs)))
        quantized = quantize_weight(weight.numpy(), inputs, name)
        return Matrix(
            panels=self._panels(torch.from_numpy(quantized.weight)),
            bias=self.retain(bias),
            scales=self.retain(torch.from_numpy(quantized.scales)),
            sums=self.retain(torch.from_numpy(quantized.sums)),
            smoothing=self.retain(torch.from_numpy(quantized.smoothing)),
        )

    def _panels(self, weight: Tensor) -> int:
        """Pack (out, in) -> (out / 16, in / group, 16, group); a group is 32 bits of one row."""
        rows, columns = weight.shape
        group = 4 // weight.element_size()
        blocks = weight.reshape(rows // PANEL, PANEL, columns // group, group)
        return self.retain(blocks.permute(0, 2, 1, 3))

    def retain(self, tensor: Tensor) -> int:
        """Keep a row-major copy of a tensor alive; return its address."""
        self._tensors.append(tensor.contiguous())
        return self._tensors[-1].data_ptr()


def padding_to_tiles(weight: Tensor) -> tuple[int, int]:
    """Return the numbers of rows and columns that pad a weight (out, in) to whole tiles."""
    return -weight.shape[0] % _TILE[0], -weight.shape[1] % _TILE[1]


def interleave_panels(gate: Tensor, up: Tensor) -> Tensor:
    """Alternate panels of gate and up, so that a kernel computes both values of a column."""
    inner = gate.shape[1:]
    padding = (0, 0) * len(inner) + (0, -len(gate) % PANEL)
    panels = [F.pad(part, padding).view(-1, PANEL, *inner) for part in (gate, up)]
    return torch.stack(panels, dim=1).view(-1, *inner)
