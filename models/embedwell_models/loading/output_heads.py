"""Outputs of texts by the heads of a model, on the device that has the states, or on the host.

B sequences, T tokens, D hidden size.
"""

import pkgutil
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from embedwell_models import families
from embedwell_models.checkpoint import adapters, weights
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import WeightAndBias
from embedwell_models.encoder.pooling import pool_batch
from embedwell_models.encoder.vector_modules import load_arrays
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.model_files.sparse import TOKEN_VECTORS, BgeM3Sparse, Splade
from embedwell_models.model_files.vector_modules import projection_module
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import SparseVector, TextOutputs
from embedwell_models.vectors import Floats, normalize

if TYPE_CHECKING:  # imported for models of these kinds
    from embedwell_models.encoder.sparse_vectors import TokenWeightVectors
    from embedwell_models.encoder.splade import SpladeEncoder
    from embedwell_models.tokenizer.tokenizer import Tokenizer
    from embedwell_models.torch_backend.encoder import TorchEncoder

OutputComputer = Callable[[Batch, Collection[str]], list[TextOutputs]]
"""Function from a batch of B sequences to the outputs of the given names (`output_names`)."""
HostHead = Callable[[Floats, Batch], Floats]
"""Function from the last states (T, D) of a batch to an output, see Heads."""
Heads = Callable[[Batch, Collection[str]], dict[str, Floats]]
"""Function from a batch to the outputs of the given names.

dense: the vector of each text, (B, dim). sparse: the weight of each token, (T, 1). multi: the
vector of each token, (T, dim).
"""


def choose_output_computer(model: LoadedModel) -> OutputComputer:
    """Choose the heads of a model; raises ModelError if weights cannot be read."""
    family = families.named(model.description.spec.config.family)
    if family.output_loader:
        computer: OutputComputer = pkgutil.resolve_name(family.output_loader)(model)
        return computer
    if model.description.multi_vector:
        heads = multi_vector_heads(model)
        return lambda batch, _: [
            TextOutputs(multi=rows) for rows in batch.split(heads(batch, [MULTI])[MULTI])
        ]
    if listwise := model.description.listwise:
        return MarkerOutputs(model, listwise.marker_ids)
    if isinstance(model.description.recipe.sparse, Splade):
        from embedwell_models.encoder.splade import SpladeEncoder

        assert isinstance(model.encoder, SpladeEncoder)
        return SpladeOutputs(model.description, model.encoder, model.tokenizer)
    return StateOutputs(model)


class MarkerOutputs:
    """Vectors of a listwise reranker: of the markers after each document and the query."""

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
        self, description: ModelDescription, encoder: "SpladeEncoder", tokenizer: "Tokenizer"
    ) -> None:
        sparse, vocab_size = description.recipe.sparse, description.spec.config.vocab_size
        self._encoder, self._query_vectors = encoder, None
        if isinstance(sparse, Splade) and sparse.query is not None:
            from embedwell_models.encoder.sparse_vectors import QueryVectors

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
        self._vectors, self._token_weights = text_vectors(model), _token_weights(model)
        options = description.token_options
        self._first = 1 if options and options.skips_first else 0  # token with a vector
        self._heads = bge_m3_heads(model, self._token_weights)

    def __call__(self, batch: Batch, names: Collection[str]) -> list[TextOutputs]:
        """Compute the outputs of the given names."""
        # Several ids may form one word: the rows of `states` would then not match the ids.
        if {*names} == {DENSE}:
            return [TextOutputs(dense=vector) for vector in self._vectors(batch)]
        arrays = self._heads(batch, names)
        nothing = [None] * len(batch.lengths)
        dense = arrays[DENSE] if DENSE in names else nothing
        sparse = self._sparse(batch, arrays[SPARSE]) if SPARSE in names else nothing
        multi = self._of_tokens(batch, arrays[MULTI]) if MULTI in names else nothing
        return [TextOutputs(*outputs) for outputs in zip(dense, sparse, multi, strict=True)]

    def _of_tokens(self, batch: Batch, vectors: Floats) -> list[Floats]:
        return [rows[self._first :] for rows in batch.split(vectors)]

    def _sparse(self, batch: Batch, weights: Floats) -> list[SparseVector]:
        assert self._token_weights is not None
        texts = zip(batch.split(batch.ids), batch.split(weights), strict=True)
        return [self._token_weights(*text) for text in texts]


def _token_weights(model: LoadedModel) -> "TokenWeightVectors | None":
    description = model.description
    if not isinstance(description.recipe.sparse, BgeM3Sparse):
        return None
    from embedwell_models.encoder.sparse_vectors import TokenWeightVectors

    width = description.spec.config.hidden_size
    return TokenWeightVectors(description.path, model.tokenizer, width)


def multi_vector_heads(model: LoadedModel) -> Heads:
    """Return the head of a multi-vector model, with unit length if its files say so.

    Raises ModelError for weights that are missing or of a wrong shape.
    """
    if (encoder := _on_device(model)) and (of_rows := model.device_head):
        from embedwell_models.torch_backend import device_heads as on

        unit = model.description.recipe.normalize
        vectors = on.of_tokens((lambda rows: on.normalize(of_rows(rows))) if unit else of_rows)
        return on.DeviceHeads(encoder, {MULTI: vectors})
    head = _only_head(model)
    return _host_heads(model, {MULTI: lambda states, _: head(states)})


def text_vectors(model: LoadedModel) -> Callable[[Batch], Floats]:
    """Return the function of a batch's dense vectors, not normalised: (B, dim).

    On a GPU the modules after the pooling are there, too. Raises ModelError for weights that are
    missing or of a wrong shape.
    """
    poolings = model.description.recipe.pooling
    if device_head := model.device_head:
        from embedwell_models.torch_backend.device_heads import with_states_on_device

        on_device = with_states_on_device(model.encoder)
        assert on_device is not None
        return lambda batch: on_device.vectors(batch, poolings, device_head)
    # Not the model, whose tokenizer would stay in memory.
    encoder, head = model.encoder, model.head
    return lambda batch: head(encoder.vectors(batch, poolings))


def bge_m3_heads(model: LoadedModel, token_weights: "TokenWeightVectors | None") -> Heads:
    """Return the heads of BGE-M3; raises ModelError if weights cannot be read.

    token_weights: None for a model without them.
    """
    poolings, head = model.description.recipe.pooling, model.head
    layer = _token_layer(model) if MULTI in model.description.outputs else None
    if encoder := _on_device(model):
        from embedwell_models.torch_backend import device_heads as on

        assert model.device_head is not None
        on_device = {DENSE: on.pooled(poolings, model.device_head)}
        if token_weights:
            layer_of_weights = on.linear(token_weights.layer, encoder.device, "relu")
            on_device[SPARSE] = on.of_tokens(layer_of_weights)
        if layer:
            of_rows = on.linear(layer, encoder.device)
            on_device[MULTI] = on.of_tokens(lambda rows: on.normalize(of_rows(rows)))
        return on.DeviceHeads(encoder, on_device)
    heads: dict[str, HostHead] = {
        DENSE: lambda states, batch: head(pool_batch(states, batch, poolings))
    }
    if token_weights:
        weigh = token_weights.weigh
        heads[SPARSE] = lambda states, batch: np.concatenate([*map(weigh, batch.split(states))])
    if layer:
        project = _projected(model, layer)
        heads[MULTI] = lambda states, _: project(states)
    return _host_heads(model, heads)


def token_head(model: LoadedModel) -> Callable[[Floats], Floats]:
    """Return the head of a model's vectors of tokens, on the host: (T, D) -> (T, dim).

    Raises ModelError for weights that are missing or of a wrong shape.
    """
    if model.description.multi_vector:
        return _only_head(model)
    return _projected(model, _token_layer(model))


def _host_heads(model: LoadedModel, heads: Mapping[str, HostHead]) -> Heads:
    # Heads that read the last states on the host.
    encoder, num_layers = model.encoder, model.description.spec.config.num_layers

    def compute(batch: Batch, names: Collection[str]) -> dict[str, Floats]:
        states = encoder.states(batch, num_layers)
        return {name: heads[name](states, batch) for name in names}

    return compute


def _projected(model: LoadedModel, layer: WeightAndBias) -> Callable[[Floats], Floats]:
    project = model.linear(*layer)
    return lambda states: normalize(project(states))


def _only_head(model: LoadedModel) -> Callable[[Floats], Floats]:
    # Of a model without a dense vector of a text.
    head, finish = model.head, normalize if model.description.recipe.normalize else _identity
    return lambda states: finish(head(states))


def _token_layer(model: LoadedModel) -> WeightAndBias:
    description = model.description
    width = description.spec.config.hidden_size
    if projection := description.spec.token_projection:
        module = projection_module("", width, projection)
        arrays = load_arrays(description.encoder, module)
        weight, bias = arrays.values()
        changed = adapters.changed(description.encoder, description.spec, projection.tensor, weight)
        return changed, bias
    shapes = {"weight": (width, width), "bias": (width,)}
    arrays = weights.read_file(description.path / TOKEN_VECTORS, shapes)
    return arrays["weight"], arrays["bias"]


def _on_device(model: LoadedModel) -> "TorchEncoder | None":
    # The encoder, if its states are on a GPU.
    if model.device.type == "cpu":
        return None
    from embedwell_models.torch_backend.encoder import TorchEncoder

    return model.encoder if isinstance(model.encoder, TorchEncoder) else None


def _identity(rows: Floats) -> Floats:
    return rows
