"""Choice of the device that a model computes on."""

from collections.abc import Callable

import torch

from embedwell_models.errors import ModelError

# Parts of CUDA's messages for a GPU that does not exist or is too old for this build of torch.
_PERMANENT_ERRORS = ("invalid device ordinal", "no kernel image")


def is_ampere_or_newer(device: torch.device) -> bool:
    """Whether a device is a GPU from Ampere on, which has bfloat16 and FlashAttention."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def try_device(name: str) -> torch.device:
    """Return a device after a test computation on it; raises torch's error if it fails.

    Only a computation shows whether torch has code for a GPU.
    """
    return torch.ones(1, device=name).device


def resolve_device(
    name: str, try_device: Callable[[str], torch.device] = try_device
) -> torch.device:
    """Return the device for a name: auto (the first GPU, else the CPU), cpu, cuda or cuda:N.

    For a GPU, turn off cuDNN's attention in this process.

    Raises ModelError if there is no such device. Raises torch's own error if the device may become
    available later, for example if it is busy or its memory is full.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = try_device(name)
    except (RuntimeError, AssertionError) as error:
        message = str(error).partition("\n")[0]
        if _is_transient(error, message):
            raise
        gpus = torch.cuda.device_count()
        raise ModelError(
            f"device {name!r} is not available: {message} (GPUs that torch sees: {gpus})"
        ) from None
    if device.type == "cuda":
        # cuDNN needs a plan for each batch shape, which takes tens of milliseconds and memory.
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def _is_transient(error: Exception, message: str) -> bool:
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, torch.AcceleratorError) and not any(
        part in message for part in _PERMANENT_ERRORS
    )
