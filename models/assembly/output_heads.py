"""Outputs of a text beside a dense vector: sparse vectors, and a vector of each token."""

from collections.abc import Collection, Sequence

import numpy as np
import torch

from models.checkpoint import weights
from models.cpu_backend.pooling import pool_on_torch
from models.encoder.batch import Batch, Rows
from models.encoder.head import Head
from models.encoder.sparse_vectors import QueryVectors, TokenWeightVectors
from models.folder import Folder
from models.outputs.names import DENSE, MULTI, SPARSE
from models.outputs.text_outputs import SparseVector, TextOutputs
from models.sentence_transformers.bge_m3 import TOKEN_VECTORS
from models.sentence_transformers.sparse import Splade, TokenWeights
from models.tokenizer.tokenizer import Tokenizer
from models.torch_backend.linear import LinearFactory
from models.vectors import Floats, normalize


class QueryHead:
    """The sparse vectors of queries that need no encoder; None for other models' queries."""

    def __init__(self, folder: Folder, tokenizer: Tokenizer) -> None:
        sparse, vocab_size = folder.sentence.sparse, folder.spec.config.vocab_size
        self._vectors = None
        if isinstance(sparse, Splade) and sparse.query is not None:
            self._vectors = QueryVectors(folder.path, sparse.query, tokenizer, vocab_size)

    def __call__(self, ids: Rows) -> list[TextOutputs]:
        """Return the vectors of B queries of token ids."""
        assert self._vectors is not None
        return [TextOutputs(sparse=self._vectors(row)) for row in ids]


class StateHeads:
    """BGE-M3 (Chen et al. 2024, arXiv 2402.03216): all outputs from the last states of one pass."""

    def __init__(
        self, folder: Folder, tokenizer: Tokenizer, head: Head, linear: LinearFactory
    ) -> None:
        """head: of dense vectors. linear: builds layers whose rows do not depend on each other."""
        width = folder.spec.config.hidden_size
        self._head, self._poolings = head, folder.sentence.pooling
        self._token_weights = self._token_layer = None
        if isinstance(folder.sentence.sparse, TokenWeights):
            self._token_weights = TokenWeightVectors(folder.path, tokenizer, width)
        if MULTI in folder.outputs:
            shapes = {"weight": (width, width), "bias": (width,)}
            tensors = weights.read_file(folder.path / TOKEN_VECTORS, shapes)
            self._token_layer = linear(tensors["weight"], tensors["bias"])

    def __call__(self, batch: Batch, states: Floats, names: Collection[str]) -> list[TextOutputs]:
        """Compute outputs of B sequences from their states (T, D)."""
        borders = batch.lengths.cumsum()[:-1]
        nothing = [None] * len(batch.lengths)
        dense: Sequence[Floats | None] = nothing
        if DENSE in names:
            dense = list(self._head(pool_on_torch(states, batch, self._poolings)))
        sparse = self._sparse(batch, states, borders) if SPARSE in names else nothing
        multi = self._multi(states, borders) if MULTI in names else nothing
        return [TextOutputs(*outputs) for outputs in zip(dense, sparse, multi, strict=True)]

    def _sparse(self, batch: Batch, states: Floats, borders: Floats) -> list[SparseVector]:
        assert self._token_weights is not None
        texts = zip(np.split(batch.ids, borders), np.split(states, borders), strict=True)
        return [self._token_weights(*text) for text in texts]

    @torch.inference_mode()
    def _multi(self, states: Floats, borders: Floats) -> list[Floats]:
        assert self._token_layer is not None
        vectors = normalize(self._token_layer(torch.from_numpy(states)).numpy())
        return [rows[1:] for rows in np.split(vectors, borders)]  # without the first token's
