"""Heads for sparse vectors and for a vector of each token, beside the dense vector of a text."""

from collections.abc import Collection, Sequence
from typing import Protocol

from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.pooling import pool_batch
from embedwell_models.encoder.sparse_vectors import QueryVectors, TokenWeightVectors
from embedwell_models.encoder.splade_encoder import SpladeEncoder
from embedwell_models.encoder.vector_heads import PooledVectorHead, TokenVectorHead
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files.bge_m3 import TOKEN_VECTORS
from embedwell_models.model_files.sparse import BgeM3Sparse, Splade
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import SparseVector, TextOutputs
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.vectors import Floats, normalize


class OutputComputer(Protocol):
    """Function from a batch of B sequences to the outputs of the given names (`outputs.names`)."""

    def __call__(self, batch: Batch, names: Collection[str]) -> list[TextOutputs]: ...


def choose_output_computer(model: LoadedModel) -> OutputComputer:
    """Choose the heads of a model; raises ModelError if weights cannot be read."""
    if isinstance(model.head, TokenVectorHead):
        return MultiVectorOutputs(model.description, model.encoder, model.head)
    if isinstance(model.encoder, SpladeEncoder):
        return SpladeOutputs(model.description, model.encoder, model.tokenizer)
    return StateOutputs(model, model.head)


class MultiVectorOutputs:
    """Head of a multi-vector model: a vector for each token."""

    def __init__(
        self, description: ModelDescription, encoder: Encoder, head: TokenVectorHead
    ) -> None:
        self._encoder, self._head = encoder, head
        self._num_layers = description.spec.config.num_layers
        self._normalize = description.sentence.normalize

    def __call__(self, batch: Batch, names: Collection[str]) -> list[TextOutputs]:
        """Compute the vectors of all tokens, normalised if the model's files say so."""
        vectors = self._head(self._encoder.states(batch, self._num_layers))
        vectors = normalize(vectors) if self._normalize else vectors
        return [TextOutputs(multi=rows) for rows in batch.split(vectors)]


class SpladeOutputs:
    """Head of a SPLADE model: sparse vectors of documents and of queries."""

    def __init__(
        self, description: ModelDescription, encoder: SpladeEncoder, tokenizer: Tokenizer
    ) -> None:
        sparse, vocab_size = description.sentence.sparse, description.spec.config.vocab_size
        self._encoder, self._query_vectors = encoder, None
        if isinstance(sparse, Splade) and sparse.query is not None:
            self._query_vectors = QueryVectors(
                description.path, sparse.query, tokenizer, vocab_size
            )

    def __call__(self, batch: Batch, names: Collection[str]) -> list[TextOutputs]:
        """Compute the sparse vectors of the batch, as documents or as queries."""
        if self._query_vectors and SPARSE_QUERY in names:
            return [TextOutputs(sparse=self._query_vectors(ids)) for ids in batch.split(batch.ids)]
        return [TextOutputs(sparse=vector) for vector in self._encoder.sparse(batch)]


class StateOutputs:
    """Head for the dense vector of a text and the other outputs of BGE-M3, from one forward pass.

    BGE-M3: Chen et al. 2024, arXiv 2402.03216.
    """

    def __init__(self, model: LoadedModel, head: PooledVectorHead) -> None:
        """head: the modules that compute the dense vector."""
        description, width = model.description, model.description.spec.config.hidden_size
        self._encoder, self._num_layers = model.encoder, description.spec.config.num_layers
        self._head, self._poolings = head, description.sentence.pooling
        self._token_weights = self._token_layer = None
        if isinstance(description.sentence.sparse, BgeM3Sparse):
            self._token_weights = TokenWeightVectors(description.path, model.tokenizer, width)
        if MULTI in description.outputs:
            shapes = {"weight": (width, width), "bias": (width,)}
            arrays = weights.read_file(description.path / TOKEN_VECTORS, shapes)
            self._token_layer = model.linear(arrays["weight"], arrays["bias"])

    def __call__(self, batch: Batch, names: Collection[str]) -> list[TextOutputs]:
        """Compute the outputs of the given names."""
        # Several ids may form one word: the rows of `states` would then not match the ids.
        if {*names} == {DENSE}:
            vectors = self._head(self._encoder.vectors(batch, self._poolings))
            return [TextOutputs(dense=vector) for vector in vectors]
        states = self._encoder.states(batch, self._num_layers)
        nothing = [None] * len(batch.lengths)
        dense: Sequence[Floats | None] = nothing
        if DENSE in names:
            dense = list(self._head(pool_batch(states, batch, self._poolings)))
        sparse = self._sparse(batch, states) if SPARSE in names else nothing
        multi = self._multi(batch, states) if MULTI in names else nothing
        return [TextOutputs(*outputs) for outputs in zip(dense, sparse, multi, strict=True)]

    def _sparse(self, batch: Batch, states: Floats) -> list[SparseVector]:
        assert self._token_weights is not None
        texts = zip(batch.split(batch.ids), batch.split(states), strict=True)
        return [self._token_weights(*text) for text in texts]

    def _multi(self, batch: Batch, states: Floats) -> list[Floats]:
        assert self._token_layer is not None
        vectors = normalize(self._token_layer(states))
        return [rows[1:] for rows in batch.split(vectors)]  # without the first token
