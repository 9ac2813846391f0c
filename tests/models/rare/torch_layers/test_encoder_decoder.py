"""An encoder and a decoder in torch's own layers, as a GPU has them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.vectors import Floats, normalize
from embedwell_rare.torch_layers.encoder_decoder import EncoderDecoder
from tests.models.families.checkpoint import CPU
from tests.models.kalm_reranker import write_kalm_reranker

LENGTHS = [(40, 9), (3, 30), (17, 1), (1, 12)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kalm_reranker(tmp_path_factory.mktemp("kalm"))


def load(folder: Path, dtype: torch.dtype = torch.float32) -> EncoderDecoder:
    spec = families.read(folder)
    assert spec.decoder is not None
    loaded, layout = weights.load(folder, spec), spec.decoder.model
    factory = TorchLinearFactory(CPU, dtype)
    layers = TorchLayers(spec.config, loaded, factory, CPU)
    decoder = TorchLayers(layout.config, weights.load(folder, layout), factory, CPU)
    embeddings = InputEmbeddings(spec.config, loaded, CPU)
    return EncoderDecoder(embeddings, layers, decoder, spec.decoder.chunk_size)


def rows(folder: Path) -> list[list[int]]:
    """Ids of documents, and then of queries in the second segment."""
    size, noise = families.read(folder).config.vocab_size, np.random.default_rng(3)
    return [
        [*noise.integers(0, size, one).tolist(), *noise.integers(size, 2 * size, other).tolist()]
        for one, other in LENGTHS
    ]


def vectors(encoder: EncoderDecoder, ids: list[list[int]]) -> Floats:
    return normalize(encoder.vectors(Batch.of(ids), ["lasttoken"]))


@pytest.mark.parametrize(
    ("dtype", "least"), [(torch.bfloat16, 0.98), (torch.float16, 0.999)], ids=str
)
def test_half_precision_is_faithful(dtype: torch.dtype, least: float, folder: Path) -> None:
    ids = rows(folder)
    exact, half = vectors(load(folder), ids), vectors(load(folder, dtype), ids)
    assert (exact * half).sum(axis=1).min() >= least


def test_either_segment_changes_the_vector(folder: Path) -> None:
    (row, *_), encoder = rows(folder), load(folder)
    size, (document, query) = families.read(folder).config.vocab_size, LENGTHS[0]
    others = [[row[0] ^ 1, *row[1:]], [*row[:document], row[document] ^ 1, *row[document + 1 :]]]
    exact, *changed = vectors(encoder, [row, *others])
    assert all(float(exact @ each) < 0.9999 for each in changed)
    assert len(row) == document + query and row[document - 1] < size <= row[document]


def test_a_text_of_one_segment_is_read_by_both(folder: Path) -> None:
    size, encoder = families.read(folder).config.vocab_size, load(folder)
    text = rows(folder)[0][:9]
    other = [id + size for id in text]
    one, both, second = vectors(encoder, [text, [*text, *other], other])
    assert np.array_equal(one, both) and np.array_equal(second, both)
