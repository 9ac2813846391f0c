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


class Arrival:
    """A float32 tensor on its way to the host; the device may go on with what comes after it."""

    def __init__(self, tensor: Tensor) -> None:
        self._host = tensor.to("cpu", non_blocking=True)  # from a GPU: into pages that cannot move
        # A thread that waits sleeps: otherwise it would keep a core busy all the while.
        self._event = torch.cuda.Event(blocking=True) if tensor.is_cuda else None  # type: ignore[no-untyped-call]
        if self._event:
            self._event.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> npt.NDArray[np.float32]:
        """What the tensor is, once everything is computed that it depends on."""
        if self._event:
            self._event.synchronize()
        found: npt.NDArray[np.float32] = self._host.numpy()
        return found
