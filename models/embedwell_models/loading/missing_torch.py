"""Why a model needs torch, for the message where torch is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from embedwell_models.cpu_backend import library
from embedwell_models.encoder.device import may_be_gpu
from embedwell_models.errors import TORCH_MISSING, ModelError
from embedwell_models.model_description import ModelDescription


@contextmanager
def explain_missing_torch(description: ModelDescription, device: str, isa: str) -> Iterator[None]:
    """Load a model of a folder; raises ModelError if that needs torch, which is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        need = _need(description, device, isa)
        raise ModelError(f"{description.path}: {need}, and {TORCH_MISSING}") from None


def _need(description: ModelDescription, device: str, isa: str) -> str:
    if may_be_gpu(device):
        return f"the device {device!r} is for PyTorch"
    if library.best_isa("float32", library.features(isa)) is None:
        return "there are no compiled kernels to use, only PyTorch"
    return f"the compiled kernels do not compute all of this {description.spec.config.family} model"
