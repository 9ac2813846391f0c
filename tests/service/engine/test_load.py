"""Tests of how the engine loads its model."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from service.engine.load import load


@pytest.fixture
def inexact() -> Iterator[None]:
    """As in images whose environment lets products round to TF32."""
    threads, before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)
    torch.set_num_threads(threads)


def test_float32_is_multiplied_in_float32(minilm_folder: Path, inexact: None) -> None:
    load(minilm_folder, "cpu", "float32", 1)
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_num_threads() == 1
