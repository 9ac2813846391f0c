"""Heads for sparse vectors and for a vector of each token, beside the dense vector of a text."""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.sparse_vectors import QueryVectors, TokenWeightVectors
from embedwell_models.encoder.splade import SpladeEncoder
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.loading.output_heads import bge_m3_heads, multi_vector_heads
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files.sparse import BgeM3Sparse, Splade
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import SparseVector, TextOutputs
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.vectors import Floats

OutputComputer = Callable[[Batch, Collection[str]], list[TextOutputs]]
"""Function from a batch of B sequences to the outputs of the given names (`outputs.names`)."""


def choose_output_computer(model: LoadedModel) -> OutputComputer:
    """Choose the heads of a model; raises ModelError if weights cannot be read."""
    if model.description.multi_vector:
        heads = multi_vector_heads(model)
        return lambda batch, _: [
            TextOutputs(multi=rows) for rows in batch.split(heads(batch, [MULTI])[MULTI])
        ]
    if listwise := model.description.listwise:
        return MarkerOutputs(model, listwise.marker_ids)
    if isinstance(model.encoder, SpladeEncoder):
        return SpladeOutputs(model.description, model.encoder, model.tokenizer)
    return StateOutputs(model)


class MarkerOutputs:
    """Vectors of a listwise reranker: those of the markers after each document and the query."""

    def __init__(self, model: LoadedModel, marker_ids: Sequence[int]) -> None:
        self._heads, self._marker_ids = multi_vector_heads(model), marker_ids

    def __call__(self, batch: Batch, names: Collection[str]) -> list[TextOutputs]:
        """Compute the vectors of each sequence, in the order of the markers."""
        vectors = batch.split(self._heads(batch, [MULTI])[MULTI])
        marked = batch.split(np.isin(batch.ids, self._marker_ids))
        return [TextOutputs(multi=rows[at]) for rows, at in zip(vectors, marked, strict=True)]


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
    """Outputs of BGE-M3 from one forward pass, and the dense vector of other models.

    BGE-M3: Chen et al. 2024, arXiv 2402.03216.
    """

    def __init__(self, model: LoadedModel) -> None:
        description = model.description
        self._encoder, self._head = model.encoder, model.head
        self._poolings, self._token_weights = description.sentence.pooling, None
        if isinstance(description.sentence.sparse, BgeM3Sparse):
            width = description.spec.config.hidden_size
            self._token_weights = TokenWeightVectors(description.path, model.tokenizer, width)
        options = description.token_options
        self._first = 1 if options and options.skips_first else 0  # token with a vector
        self._heads = bge_m3_heads(model, self._token_weights)

    def __call__(self, batch: Batch, names: Collection[str]) -> list[TextOutputs]:
        """Compute the outputs of the given names."""
        # Several ids may form one word: the rows of `states` would then not match the ids.
        if {*names} == {DENSE}:
            vectors = self._head(self._encoder.vectors(batch, self._poolings))
            return [TextOutputs(dense=vector) for vector in vectors]
        arrays = self._heads(batch, names)
        nothing = [None] * len(batch.lengths)
        dense: Sequence[Floats | None] = nothing
        if DENSE in names:
            dense = list(self._head(arrays[DENSE]))
        sparse = self._sparse(batch, arrays[SPARSE]) if SPARSE in names else nothing
        multi = self._of_tokens(batch, arrays[MULTI]) if MULTI in names else nothing
        return [TextOutputs(*outputs) for outputs in zip(dense, sparse, multi, strict=True)]

    def _of_tokens(self, batch: Batch, vectors: Floats) -> list[Floats]:
        return [rows[self._first :] for rows in batch.split(vectors)]

    def _sparse(self, batch: Batch, weights: Floats) -> list[SparseVector]:
        assert self._token_weights is not None
        texts = zip(batch.split(batch.ids), batch.split(weights), strict=True)
        return [self._token_weights(*text) for text in texts]
