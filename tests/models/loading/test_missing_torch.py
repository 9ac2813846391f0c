"""Tests of the message for a model that needs torch, where it is not installed."""

import pytest

from embedwell_models.cpu_backend import library
from embedwell_models.errors import TORCH_MISSING, ModelError
from embedwell_models.loading.missing_torch import explain_missing_torch
from embedwell_models.model_description import ModelDescription
from tests.conftest import Folder

NO_KERNELS = "there are no compiled kernels to use, only PyTorch"
LAYERS = "the compiled kernels do not compute all of this bert model"


@pytest.mark.parametrize(
    ("device", "isa", "need"),
    [
        ("cuda:1", "auto", "the device 'cuda:1' is for PyTorch"),
        ("cpu", "none", NO_KERNELS),
        ("cpu", "auto", LAYERS if library.best_isa("float32") else NO_KERNELS),
    ],
)
def test_the_message_says_what_needs_torch(
    tiny_bert: Folder, device: str, isa: str, need: str
) -> None:
    path = tiny_bert()
    with (
        pytest.raises(ModelError) as raised,
        explain_missing_torch(ModelDescription.read(path), device, isa),
    ):
        raise ModuleNotFoundError(TORCH_MISSING, name="torch")
    assert str(raised.value) == f"{path}: {need}, and {TORCH_MISSING}"


def test_another_module_that_is_missing_is_a_fault_of_ours(tiny_bert: Folder) -> None:
    folder = ModelDescription.read(tiny_bert())
    with (
        pytest.raises(ModuleNotFoundError, match="no_such_module"),
        explain_missing_torch(folder, "cpu", "auto"),
    ):
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401
