"""The device that a model computes on."""

from collections.abc import Callable

import torch

from models.errors import ModelError

# What CUDA says of GPUs that are not there, or too old for this build of torch.
_LASTING = ("invalid device ordinal", "no kernel image")


def ampere(device: torch.device) -> bool:
    """Whether it is a GPU with bfloat16 and FlashAttention, as those from Ampere on are."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def touch(name: str) -> torch.device:
    """Compute a little: a GPU that torch has no code for is there like any other until then."""
    return torch.ones(1, device=name).device


def find(name: str, touch: Callable[[str], torch.device] = touch) -> torch.device:
    """auto, cpu, cuda or cuda:N, of which auto is the first GPU where there is one.

    Raises ModelError where there is no such device, and what torch does where there may be later:
    it is busy, say, or its memory is full.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return touch(name)
    except (RuntimeError, AssertionError) as error:
        what = str(error).partition("\n")[0]
        if _passing(error, what):
            raise
        gpus = torch.cuda.device_count()
        raise ModelError(
            f"device {name!r} cannot be had: {what} (GPUs that torch sees here: {gpus})"
        ) from None


def _passing(error: Exception, what: str) -> bool:
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, torch.AcceleratorError) and not any(one in what for one in _LASTING)
