"""Tensors: of arrays of a checkpoint, copied to and from a device, and products for each text."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from embedwell_models.checkpoint.tables import Stored, decoded
from embedwell_models.checkpoint.weights import StoredWeights, Weights
from embedwell_models.vectors import Floats

Tensors = Mapping[str, Tensor]

_HOST = torch.device("cpu")


def pair_to_tensors(pair: tuple[Floats, Floats]) -> tuple[Tensor, Tensor]:
    """Return tensors that share the memory of two arrays, such as a weight and its bias."""
    first, second = pair
    return torch.from_numpy(first), torch.from_numpy(second)


def to_tensors(arrays: Weights | Tensors, device: torch.device = _HOST) -> Tensors:
    """Return the float32 tensors of a checkpoint, each decoded when it is read.

    So the host has one tensor at a time in float32. A GPU decodes 16 bits itself. A tensor in
    float32 shares the memory of its array on the host. device: of the tensors.
    """
    return _DecodedTensors(arrays, device)


class _DecodedTensors(Tensors):
    def __init__(self, arrays: Weights | Tensors, device: torch.device) -> None:
        self._arrays, self._device = arrays, device

    def __getitem__(self, name: str) -> Tensor:
        return _on_device(self._arrays, name, self._device).float()

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def short_or_float32(arrays: Weights | Tensors, name: str, device: torch.device) -> Tensor:
    """Return a tensor of a checkpoint: in 16 bits if it is stored so, otherwise in float32."""
    tensor = _on_device(arrays, name, device)
    return tensor if tensor.dtype in (torch.bfloat16, torch.float16) else tensor.float()


def _on_device(arrays: Weights | Tensors, name: str, device: torch.device) -> Tensor:
    numbers = arrays.stored(name) if isinstance(arrays, StoredWeights) else arrays[name]
    return (numbers if isinstance(numbers, Tensor) else _as_stored(numbers)).to(device)


def _as_stored(numbers: Stored) -> Tensor:
    if not isinstance(numbers, np.ndarray) or not numbers.flags.writeable:  # torch would warn
        numbers = decoded(numbers)
    if numbers.dtype == np.uint16:
        return torch.from_numpy(numbers).view(torch.bfloat16)
    return torch.from_numpy(numbers)


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
        # A GPU copies into pinned memory; for another device no event would tell the end of a copy.
        self._host = tensor.to("cpu", non_blocking=tensor.is_cuda)
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


def text_products(left: Tensor, right: Tensor) -> Tensor:
    """Multiply the matrices of each text: (N, H, Q, K) @ (N, H, K, L) -> (N, H, Q, L).

    right: also (H, K, L), for matrices that all texts share. On a CPU each text is multiplied by
    itself: a product of several texts may copy its operands to another layout, and so sum in
    another order.
    """
    if left.device.type != "cpu":
        return left @ right
    matrices = right.expand(len(left), *right.shape[-3:])
    return torch.stack([a @ b for a, b in zip(left, matrices, strict=True)])
