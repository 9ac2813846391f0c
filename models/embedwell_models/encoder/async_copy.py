"""Asynchronous copies of tensors between the host and a device."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def to_device(device: torch.device, *parts: Tensor) -> tuple[Tensor, ...]:
    """Copy vectors of one type to a device; to a GPU in one asynchronous copy."""
    if device.type != "cuda":
        return tuple(part.to(device) for part in parts)
    # Only pinned memory is copied asynchronously; torch reuses it when the copy is done.
    flat = torch.cat(parts).pin_memory().to(device, non_blocking=True)
    return torch.split(flat, [len(part) for part in parts])


class HostCopy:
    """An asynchronous copy of a float32 tensor to the host; the device may compute meanwhile."""

    def __init__(self, tensor: Tensor) -> None:
        self._host = tensor.to("cpu", non_blocking=True)  # from a GPU: into pinned memory
        # A blocking event lets the waiting thread sleep instead of keeping a core busy.
        self._event = torch.cuda.Event(blocking=True) if tensor.is_cuda else None  # type: ignore[no-untyped-call]
        if self._event:
            self._event.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> npt.NDArray[np.float32]:
        """Wait for the copy, and for the computation of the tensor; return the values."""
        if self._event:
            self._event.synchronize()
        values: npt.NDArray[np.float32] = self._host.numpy()
        return values
