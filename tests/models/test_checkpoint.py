"""A tensor read without torch is the one that torch reads."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from models import checkpoint
from models.errors import ModelError

TABLE = torch.randn(32, 12, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("file", ["model.safetensors", "model-00002-of-00002.safetensors"])
def test_a_tensor_is_read_as_float32_whatever_its_type(
    tmp_path: Path, dtype: torch.dtype, file: str
) -> None:
    table = TABLE.to(dtype)
    save_file({"first": torch.ones(7), "wanted": table, "z": torch.ones(3)}, tmp_path / file)
    if file.startswith("model-"):
        save_file({"another": torch.zeros(5)}, tmp_path / "model-00001-of-00002.safetensors")
    found = checkpoint.read(tmp_path, "wanted")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, table.to(torch.float32).numpy())


def test_a_tensor_of_another_type_is_refused_by_name(tmp_path: Path) -> None:
    save_file({"wanted": torch.ones(3, dtype=torch.int64)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match="wanted is of type I64"):
        checkpoint.read(tmp_path, "wanted")
