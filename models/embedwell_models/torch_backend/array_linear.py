"""Linear layers of torch, behind the interface for arrays."""

from dataclasses import dataclass

import torch

from embedwell_models.encoder.layers import Linear, LinearFactory
from embedwell_models.torch_backend import linear as on_tensors
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class ArrayLinearFactory(LinearFactory):
    """Factory of linear layers on arrays.

    factory: builds the layers on tensors in float32, on the device.
    """

    factory: on_tensors.LinearFactory
    device: torch.device

    def __call__(
        self, weight: Floats, bias: Floats, activation: str = "none", *, name: str = ""
    ) -> Linear:
        tensors = torch.from_numpy(weight), torch.from_numpy(bias)
        return _ArrayLinear(self.factory(*tensors, activation, name=name), self.device)


def device_linear(device: torch.device) -> ArrayLinearFactory:
    """Return a factory of float32 layers on a device; on a CPU their rows are independent."""
    return ArrayLinearFactory(on_tensors.torch_linear_factory(device, torch.float32), device)


@dataclass(frozen=True)
class _ArrayLinear:
    linear: on_tensors.Linear
    device: torch.device

    @torch.inference_mode()
    def __call__(self, x: Floats, residual: Floats | None = None) -> Floats:
        added = None if residual is None else torch.from_numpy(residual).to(self.device)
        result: Floats = self.linear(torch.from_numpy(x).to(self.device), added).cpu().numpy()
        return result
