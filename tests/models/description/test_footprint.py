"""Tests of what a model's weights take, against the weights themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from embedwell_models.checkpoint import weights
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from tests.models.families.checkpoint import SPECIAL, Case, write
from tests.models.kalm_reranker import write_kalm_reranker
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


def test_the_parameters_of_a_decoder_count_but_not_those_for_images(tmp_path: Path) -> None:
    folder = write_kalm_reranker(tmp_path)
    sizes = {name: tensor.size for name, tensor in load_file(folder / "model.safetensors").items()}
    images = sum(sizes[name] for name in sizes if "vision" in name or "multi_modal" in name)
    other_embeddings = sizes["model.encoder.embed_tokens.eoi_embedding"]
    footprint = Footprint.of(ModelDescription.read(folder))
    assert footprint.parameters == sum(sizes.values()) - images - other_embeddings


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
