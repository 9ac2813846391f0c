"""Choice of the factory of linear layers for a device."""

import torch

from embedwell_models.torch_backend.device import runs_triton
from embedwell_models.torch_backend.linear import (
    LinearFactory,
    OneDnnLinearFactory,
    TorchLinearFactory,
)


def torch_linear_factory(device: torch.device, dtype: torch.dtype) -> LinearFactory:
    """Choose the faster of torch's factories; on a CPU, output rows depend only on their input row.

    The factory of the compiled kernels, which are faster still, is in `linear_adapters`.
    """
    if dtype != torch.float32 and runs_triton(device):
        from embedwell_models.torch_backend.triton_kernels.linear import GpuLinearFactory

        return GpuLinearFactory(device, dtype)
    onednn = device.type == "cpu" and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return OneDnnLinearFactory(dtype) if onednn else TorchLinearFactory(device, dtype)
