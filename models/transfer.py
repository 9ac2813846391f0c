"""Tensors on their way between the host's memory and a device's."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def send(device: torch.device, *parts: Tensor) -> tuple[Tensor, ...]:
    """Vectors of one type on a device; to a GPU in one copy, for which the host does not wait."""
    if device.type != "cuda":
        return tuple(part.to(device) for part in parts)
    # Only pages that the system cannot move are copied so; torch reuses them when the copy is done.
    flat = torch.cat(parts).pin_memory().to(device, non_blocking=True)
    return torch.split(flat, [len(part) for part in parts])


def fetch(tensor: Tensor) -> npt.NDArray[np.float32]:
    """A float32 tensor on the host, once everything is computed that it depends on."""
    host = tensor.to("cpu", non_blocking=True)  # from a GPU: into pages that cannot be moved
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()
    found: npt.NDArray[np.float32] = host.numpy()
    return found
