"""Tests of models without layers, which need neither torch nor kernels of their width."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder import KernelEncoder
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.cpu_backend.table_encoder import TableEncoder, TableEncoderFactory
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.pooling import POOLINGS
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats
from tests.conftest import precisions

WORDS = ["[UNK]", "one", "two", "three", "four"]
ROWS = [[1, 2, 3], [4], [2, 2, 4, 1]]


def write_table(folder: Path, width: int) -> Floats:
    """Write a model2vec folder with a tokenizer of words; return its table."""
    table = np.random.default_rng(4).normal(size=(len(WORDS), width)).astype(np.float32)
    save_file({"embeddings": table}, folder / "model.safetensors")
    rust = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    rust.pre_tokenizer = pre_tokenizers.Whitespace()
    rust.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec"}))
    return table


def load(folder: Path, dtype: str = "float32", isa: str = "auto") -> Embedder:
    return Embedder.load(folder, device="cpu", dtype=dtype, isa=isa)


@pytest.mark.parametrize("width", [12, 50, 300])
def test_numpy_computes_a_table_of_any_width(width: int, tmp_path: Path) -> None:
    table = write_table(tmp_path, width)
    embedder = load(tmp_path, "auto")
    assert (embedder.why_torch, embedder.isa, embedder.dtype) == (None, None, "float32")
    vector = embedder.encode([ROWS[0]], normalized=False)[0]
    np.testing.assert_allclose(vector, table[1:4].mean(axis=0), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(embedder.hidden([ROWS[2]])[0], table[ROWS[2]])


def test_a_table_needs_no_torch_where_there_are_no_kernels(tmp_path: Path) -> None:
    table = write_table(tmp_path, 64)
    embedder = load(tmp_path, isa="none")
    assert embedder.why_torch is None
    np.testing.assert_allclose(
        embedder.encode([ROWS[0]], normalized=False)[0], table[1:4].mean(axis=0), atol=1e-7
    )


@pytest.mark.skipif(library.best_isa("float32") is None, reason="there are no kernels")
def test_numpy_pools_as_the_kernels_do(tmp_path: Path) -> None:
    write_table(tmp_path, 64)
    kernels = load(tmp_path)
    tables = load(tmp_path, isa="none")
    assert isinstance(kernels._encoder, KernelEncoder)
    assert isinstance(tables._encoder, TableEncoder)
    batch, modes = Batch.of(ROWS), list(POOLINGS)
    found, expected = (each._encoder.vectors(batch, modes) for each in (tables, kernels))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * abs(expected).max())


def test_a_text_has_the_same_bytes_in_any_batch(tmp_path: Path) -> None:
    write_table(tmp_path, 50)
    embedder = load(tmp_path)
    together = embedder.encode(ROWS)
    for row, vector in zip(ROWS, together, strict=True):
        assert embedder.encode([row])[0].tobytes() == vector.tobytes()


def test_other_precisions_of_the_processor_have_the_same_vectors(tmp_path: Path) -> None:
    table = write_table(tmp_path, 50)
    features = library.features()
    factory = TableEncoderFactory(load(tmp_path)._inputs, features)  # type: ignore[arg-type]
    assert isinstance(factory.inputs, InputTables) and factory.supported() == ["float32"]
    np.testing.assert_array_equal(factory.inputs.tokens, table)
    for dtype in precisions():
        factory.check(dtype)
    with pytest.raises(ModelError, match="dtype float16 is not supported"):
        factory.check("float16")
