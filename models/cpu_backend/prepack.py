"""Matrices as the kernels read them in a precision."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from models.cpu_backend.abi import Matrix
from models.torch_backend.quantization import quantize

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}
PANEL = 16  # columns of a packed matrix that lie together
_STEPS = 32, 64  # outputs and inputs that the kernels compute at a time


class Packer:
    """Packs in a precision and keeps what it packed: the kernels know only the addresses."""

    def __init__(self, dtype: str, sizes: Mapping[str, Tensor] | None = None) -> None:
        """sizes: for int8, those of the inputs of each product, by its name: see Observed."""
        self._dtype, self._sizes = dtype, sizes or {}
        self._kept: list[Tensor] = []

    def matrix(self, weight: Tensor, bias: Tensor, name: str) -> Matrix:
        """Weight (out, in) and bias (out,) of a product, with zeros up to whole steps."""
        rows, columns = missing(weight)
        weight, bias = F.pad(weight, (0, columns, 0, rows)), F.pad(bias, (0, rows))
        if self._dtype != "int8":
            panels = self._panels(weight.to(DTYPES[self._dtype]))
            return Matrix(panels=panels, bias=self.keep(bias))
        quantized = quantize(weight, F.pad(self._sizes[name], (0, columns)), name)
        return Matrix(
            panels=self._panels(quantized.weight),
            bias=self.keep(bias),
            scales=self.keep(quantized.scales),
            sums=self.keep(quantized.sums),
            smoothing=self.keep(quantized.smoothing),
        )

    def _panels(self, weight: Tensor) -> int:
        """(out, in) -> (out / 16, in / group, 16, group), a group being 32 bits of one row."""
        rows, columns = weight.shape
        group = 4 // weight.element_size()
        blocks = weight.reshape(rows // PANEL, PANEL, columns // group, group)
        return self.keep(blocks.permute(0, 2, 1, 3))

    def keep(self, tensor: Tensor) -> int:
        """The address of a tensor, row by row."""
        self._kept.append(tensor.contiguous())
        return self._kept[-1].data_ptr()


def missing(weight: Tensor) -> tuple[int, int]:
    """How many rows and columns a weight (out, in) lacks to whole steps of the kernels."""
    return -weight.shape[0] % _STEPS[0], -weight.shape[1] % _STEPS[1]


def interleaved(gate: Tensor, up: Tensor) -> Tensor:
    """Panels of one and the other in turn, so that both numbers of a column come out together."""
    rest = gate.shape[1:]
    padding = (0, 0) * len(rest) + (0, -len(gate) % PANEL)
    panels = [F.pad(part, padding).view(-1, PANEL, *rest) for part in (gate, up)]
    return torch.stack(panels, dim=1).view(-1, *rest)
