"""Asynchronous copies of tensors between the host and a device."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def to_device(device: torch.device, *parts: Tensor) -> tuple[Tensor, ...]:
    """Copy vectors of one type to a device; a GPU gets them in one asynchronous copy."""
    if device.type != "cuda":
        return tuple(part.to(device) for part in parts)
    # Only copies of pinned memory are asynchronous; torch reuses the memory after the copy.
    flat = torch.cat(parts).pin_memory().to(device, non_blocking=True)
    return torch.split(flat, [len(part) for part in parts])


class HostCopy:
    """Asynchronous copy of a float32 tensor to the host; the device may compute meanwhile."""

    def __init__(self, tensor: Tensor) -> None:
        self._host = tensor.to("cpu", non_blocking=True)  # a GPU copies into pinned memory
        # With a blocking event the waiting thread sleeps instead of keeping a core busy.
        self._event = torch.cuda.Event(blocking=True) if tensor.is_cuda else None  # type: ignore[no-untyped-call]
        if self._event:
            self._event.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> npt.NDArray[np.float32]:
        """Wait until the tensor is computed and copied; return its values."""
        if self._event:
            self._event.synchronize()
        values: npt.NDArray[np.float32] = self._host.numpy()
        return values


def side_stream(device: torch.device) -> torch.cuda.Stream | None:
    """Return a stream of a GPU whose work does not wait for later batches; None for a CPU."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
