"""Tests of which errors of a start the next engine may not have, and of the memory it keeps."""

import gc

import pytest
import torch

from embedwell.engine.wire.spec import EngineSpec
from embedwell.engine.worker.main import is_transient, load_and_measure
from embedwell_models.cpu_backend import library
from embedwell_models.errors import TORCH_MISSING, ModelError
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.conftest import Folder


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


def tokenizers() -> int:
    gc.collect()
    return sum(type(each) is Tokenizer for each in gc.get_objects())


@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_a_first_start_keeps_neither_the_memory_of_its_trials_nor_a_tokenizer(
    dtype: str, tiny_bert: Folder
) -> None:
    choices = ("cpu", dtype, "auto", "auto", "auto", "auto")
    spec = EngineSpec(str(tiny_bert()), *choices, 1, True, 0, 0, 0, 1)
    before = tokenizers()
    embedder, _ = load_and_measure(spec)
    assert library.release_scratch() == 0
    assert tokenizers() == before
    assert embedder.tokenizer.encode(["a"])
