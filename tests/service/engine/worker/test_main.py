"""Tests of which errors of a start the next engine may not have."""

import pytest
import torch

from embedwell.engine.worker.main import is_transient
from embedwell_models.errors import TORCH_MISSING, ModelError


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(24, "Too many open files"),
        torch.OutOfMemoryError("CUDA out of memory"),
        torch.AcceleratorError("CUDA-capable device(s) is/are busy or unavailable"),
    ],
    ids=repr,
)
def test_a_lack_of_memory_files_or_a_device_may_pass(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        ModelError("no such model"),
        ModuleNotFoundError(TORCH_MISSING, name="torch"),
        RuntimeError("negative dimension"),
    ],
    ids=repr,
)
def test_a_fault_of_the_model_or_of_the_installation_stays(error: Exception) -> None:
    assert not is_transient(error)
