"""Heads in training: their scores are those of the vectors that the server computes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedwell_models.embedder import Embedder
from embedwell_models.encoder.sparse_vectors import ignored_ids
from embedwell_models.outputs.names import MULTI, SPARSE
from embedwell_models.outputs.text_outputs import TextOutputs, common_entries, over_entries
from embedwell_models.training.token_heads import TokenHeads, TokenStates
from embedwell_models.vectors import Floats, maxsim

QUERIES = ["work the work", "of the license"]
BIAS = 2.0  # with which most weights are above zero
DOCUMENTS = ["the license of the work", "work", "a license to work"]


@pytest.fixture
def embedder(tiny_bert: Callable[..., Path]) -> Embedder:
    """A small BERT with heads of random weights."""
    folder, noise = tiny_bert(), torch.Generator().manual_seed(3)
    width = Embedder.load(folder, device="cpu", dtype="float32").config.hidden_size
    sizes = {"sparse": 1, "colbert": width}
    for name, rows in sizes.items():
        tensors = {
            "weight": 0.1 * torch.randn(rows, width, generator=noise),
            "bias": torch.full((rows,), BIAS),
        }
        save_file(tensors, folder / f"{name}_linear.safetensors")
    return Embedder.load(folder, device="cpu", dtype="float32")


@pytest.fixture
def heads(embedder: Embedder) -> TokenHeads:
    noise = torch.Generator().manual_seed(3)
    width = embedder.config.hidden_size
    heads = TokenHeads(width, ignored_ids(embedder.tokenizer))
    for layer, rows in ((heads.weight, 1), (heads.vector, width)):
        layer.weight.data = 0.1 * torch.randn(rows, width, generator=noise)
        layer.bias.data = torch.full((rows,), BIAS)
    return heads


def states(embedder: Embedder, texts: list[str]) -> TokenStates:
    ids = embedder.tokenize(texts)
    return TokenStates(
        ids=torch.tensor([id for row in ids for id in row]),
        states=torch.from_numpy(np.concatenate(embedder.hidden(ids))),
        texts=torch.repeat_interleave(torch.arange(len(ids)), torch.tensor([*map(len, ids)])),
        count=len(ids),
    )


def served(embedder: Embedder, texts: list[str]) -> list[TextOutputs]:
    return embedder.outputs(embedder.tokenize(texts), [SPARSE, MULTI])


def test_sparse_scores_are_products_of_served_vectors(
    embedder: Embedder, heads: TokenHeads
) -> None:
    vectors = [text.sparse for text in served(embedder, QUERIES + DOCUMENTS) if text.sparse]
    matrix = over_entries(vectors, common_entries(vectors))
    expected = matrix[: len(QUERIES)] @ matrix[len(QUERIES) :].T
    scores = heads.sparse_scores(states(embedder, QUERIES), states(embedder, DOCUMENTS))
    assert expected.max() > 0
    np.testing.assert_allclose(scores.detach().numpy(), expected, rtol=1e-4, atol=1e-4)


def test_maxsim_scores_are_those_of_served_vectors(embedder: Embedder, heads: TokenHeads) -> None:
    queries, documents = (
        [text.multi for text in served(embedder, texts) if text.multi is not None]
        for texts in (QUERIES, DOCUMENTS)
    )
    expected: Floats = np.array(
        [[maxsim(q, d) / len(q) for d in documents] for q in queries], dtype=np.float32
    )
    scores = heads.maxsim_scores(states(embedder, QUERIES), states(embedder, DOCUMENTS))
    np.testing.assert_allclose(scores.detach().numpy(), expected, atol=1e-5)


def test_the_loss_falls_where_the_right_candidate_is_ahead(
    embedder: Embedder, heads: TokenHeads
) -> None:
    queries = states(embedder, QUERIES)
    right = heads.loss(queries, states(embedder, QUERIES))
    wrong = heads.loss(queries, states(embedder, QUERIES[::-1]))
    assert right < wrong
