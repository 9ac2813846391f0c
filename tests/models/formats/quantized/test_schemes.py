"""Quantised checkpoints are served as any other, from matrices of several parts."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from torch import Tensor

from embedwell_formats.quantized.schemes import spread, unpack
from embedwell_models.config.json_config import read_json
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from tests.conftest import precisions
from tests.models.quantized_files import (
    TEXTS,
    assert_same_vectors,
    change,
    fp8_blocks,
    write_quantized,
)


def test_the_lowest_bits_of_a_word_come_first() -> None:
    words = np.array([[0x76543210]], np.int32)
    assert unpack(words, 4).tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert unpack(words, 8).tolist() == [[0x10, 0x32, 0x54, 0x76]]


@pytest.mark.parametrize("size", [(2, 4), (3, 3), (1, 6), (5, 1)])
def test_values_that_do_not_fit_a_matrix_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="values for a matrix of"):
        spread(np.ones(size, np.float32), (2, 6))


OPTIONS = {"quant_method": "fp8", "weight_block_size": [48, 48]}


@pytest.mark.parametrize("dtype", precisions())
def test_every_precision_computes_with_the_weights_that_are_meant(
    tmp_path: Path, dtype: str
) -> None:
    folders = write_quantized(tmp_path, fp8_blocks, OPTIONS)
    first, second = (Embedder.load(each, device="cpu", dtype=dtype) for each in folders)
    assert np.array_equal(first.embed(TEXTS), second.embed(TEXTS))


def test_the_former_name_of_the_options_is_read(tmp_path: Path) -> None:
    quantized, plain = write_quantized(tmp_path, fp8_blocks, OPTIONS)
    options = read_json(quantized / "config.json")
    options["compression_config"] = options.pop("quantization_config")
    (quantized / "config.json").write_text(json.dumps(options), encoding="utf-8")
    assert_same_vectors(quantized, plain)
    assert not ModelDescription.read(quantized).spec.unread_keys


def test_the_parts_of_a_layer_may_be_in_several_files(tmp_path: Path) -> None:
    quantized, plain = write_quantized(tmp_path, fp8_blocks, OPTIONS)
    single = quantized / "model.safetensors"
    tensors = load_file(single)
    single.unlink()
    files: dict[str, dict[str, Tensor]] = {"a.safetensors": {}, "b.safetensors": {}}
    for name, tensor in tensors.items():
        files["b.safetensors" if name.endswith("weight") else "a.safetensors"][name] = tensor
    for name, content in files.items():
        save_file(content, quantized / name, {"format": "pt"})
    index = {"weight_map": {name: file for file, content in files.items() for name in content}}
    (quantized / "model.safetensors.index.json").write_text(json.dumps(index))
    assert_same_vectors(quantized, plain)


def test_a_quantised_table_is_read(tmp_path: Path) -> None:
    quantized, plain = write_quantized(tmp_path, fp8_blocks, OPTIONS)
    name = "embeddings.word_embeddings.weight"
    parts, meant = fp8_blocks(load_file(plain / "model.safetensors")[name])
    scales = {f"{name}_scale": parts["weight_scale"], name: parts["weight"]}
    change(quantized, lambda tensors: tensors.update(scales))
    change(plain, lambda tensors: tensors.update({name: meant}))
    assert_same_vectors(quantized, plain)
