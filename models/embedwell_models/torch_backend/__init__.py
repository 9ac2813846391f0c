"""Encoders and heads on torch, for any device. Raises ModuleNotFoundError without torch."""

from embedwell_models.errors import TORCH_MISSING

try:
    import torch as _torch  # noqa: F401 - only whether it is installed
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(TORCH_MISSING, name="torch") from None
