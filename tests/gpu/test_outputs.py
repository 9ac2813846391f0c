"""Tests of sparse vectors, vectors of tokens and logits of a GPU, compared with the processor's."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from embedwell_models.embedder import Embedder
from embedwell_models.outputs.text_outputs import over_entries
from embedwell_models.vectors import Floats, normalize
from tests.gpu.card import since_ampere
from tests.models.cross_encoder import write_cross_encoder

pytestmark = pytest.mark.gpu

LENGTHS = (3, 1, 60, 17)
LEAST = {"float32": 0.9999, "float16": 0.99, "bfloat16": 0.97}  # of random weights
every_dtype = pytest.mark.parametrize(
    "dtype", ["float32", "float16", pytest.param("bfloat16", marks=since_ampere)]
)


def colbert(folder: Path) -> Path:
    written = pytest.importorskip("tests.models.colbert", exc_type=ImportError)
    written.write_colbert(folder, expansion={"strategy": "fixed", "length": 12})
    return folder / "model"


def splade(folder: Path) -> Path:
    written = pytest.importorskip("tests.models.sparse_encoder", exc_type=ImportError)
    found: Path = written.write_splade(folder / "splade")
    return found


def bge_m3(folder: Path) -> Path:
    written = pytest.importorskip("tests.models.sparse_encoder", exc_type=ImportError)
    found: Path = written.write_bge_m3(folder)
    return found


def rows(model: Embedder) -> list[list[int]]:
    """Ids of texts; the last of each is one that a filled query ends with, if there is any."""
    end = model.multi_vector.unattended_id if model.multi_vector else None
    return [[*range(6, 5 + length), 7 if end is None else end] for length in LENGTHS]


def outputs(model: Embedder) -> list[Floats]:
    texts = model.outputs(rows(model), model.output_names)
    dense = [text.dense for text in texts if text.dense is not None]
    sparse = [text.sparse for text in texts if text.sparse is not None]
    multi = [text.multi for text in texts if text.multi is not None]
    found = [np.stack(dense)] if dense else []
    found += (
        [over_entries(sparse, np.arange(model.config.vocab_size, dtype=np.int32))] if sparse else []
    )
    return [*found, *([np.concatenate(multi)] if multi else [])]


@every_dtype
@pytest.mark.parametrize("write", [colbert, splade, bge_m3], ids=lambda write: write.__name__)
def test_outputs_are_those_of_the_processor(
    write: Callable[[Path], Path], dtype: str, tmp_path: Path
) -> None:
    folder = write(tmp_path)
    expected = outputs(Embedder.load(folder, device="cpu", dtype="float32"))
    gpu = Embedder.load(folder, device="cuda", dtype=dtype)
    for _ in ("eager", "recorded"):
        for found, exact in zip(outputs(gpu), expected, strict=True):
            seen = np.abs(exact).max(axis=1) > 0
            cosines = (normalize(found) * normalize(exact)).sum(axis=1)[seen]
            assert cosines.min() >= LEAST[dtype]
        gpu.warm()


def test_sparse_vectors_are_whole_while_other_batches_are_computed(tmp_path: Path) -> None:
    gpu = Embedder.load(splade(tmp_path), device="cuda", dtype="float32")
    gpu.warm()
    expected = outputs(gpu)
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda _: outputs(gpu), range(50)):
            assert all(map(np.array_equal, found, expected))


@every_dtype
def test_layers_of_a_classifier_before_its_pooling_are_those_of_the_processor(
    dtype: str, tmp_path: Path
) -> None:
    write_cross_encoder(tmp_path, model_type="eurobert", classifier_pooling="late", labels=5)
    cpu = Embedder.load(tmp_path, device="cpu", dtype="float32")
    gpu = Embedder.load(tmp_path, device="cuda", dtype=dtype)
    expected, found = (model.encode(rows(model), normalized=False) for model in (cpu, gpu))
    assert (normalize(found) * normalize(expected)).sum(axis=1).min() >= LEAST[dtype]
