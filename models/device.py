"""The device that a model computes on."""

import torch

from models.errors import ModelError


def find(name: str) -> torch.device:
    """auto, cpu, cuda or cuda:N, of which auto is the first GPU where there is one.

    Raises ModelError where there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        what = str(error).partition("\n")[0]
        gpus = torch.cuda.device_count()
        raise ModelError(
            f"device {name!r} cannot be had: {what} (GPUs that torch sees here: {gpus})"
        ) from None
