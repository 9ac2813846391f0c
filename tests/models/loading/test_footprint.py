"""Tests of what a model's weights take, against the weights themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import save_file

from embedwell_models.checkpoint import weights
from embedwell_models.loading.footprint import Footprint
from embedwell_models.model_description import ModelDescription
from tests.models.families.checkpoint import SPECIAL, Case, write
from tests.models.tiny import write_tokenizer

CASES = [
    Case("bert"),
    Case("llama", {"num_key_value_heads": 2, "attention_bias": True}),
    Case("modernbert", SPECIAL),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parameters_are_those_that_are_loaded(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    folder = ModelDescription.read(tmp_path)
    loaded = weights.load(tmp_path, folder.spec)
    matrices = sum(
        tensor.size
        for name, tensor in loaded.items()
        if name.startswith("layers.") and tensor.ndim == 2
    )
    others = sum(tensor.size for tensor in loaded.values()) - matrices
    footprint = Footprint.of(folder)
    assert footprint == Footprint(matrices, others)
    assert footprint.parameters == matrices + others
    assert footprint.memory == {
        "float32": 4 * (matrices + others),
        "float16": 2 * matrices + 4 * others,
        "bfloat16": 2 * matrices + 4 * others,
        "int8": matrices + 4 * others,
        "int4": matrices // 2 + 4 * others,
    }


def test_a_table_counts_as_it_is_loaded(tmp_path: Path) -> None:
    tensors: dict[str, npt.NDArray[Any]] = {
        "embeddings": np.ones((3, 8), dtype=np.float16),
        "mapping": np.zeros(10, dtype=np.int64),
        "weights": np.ones(10, dtype=np.float32),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    write_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "model2vec"}')
    assert Footprint.of(ModelDescription.read(tmp_path)) == Footprint(0, 10 * 8)
