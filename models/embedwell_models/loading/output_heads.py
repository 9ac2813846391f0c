"""Heads over the last states of a model: on the device that has the states, or on the host.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from embedwell_models.checkpoint import adapters, weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.layers import WeightAndBias
from embedwell_models.encoder.pooling import pool_batch
from embedwell_models.encoder.sparse_vectors import TokenWeightVectors
from embedwell_models.encoder.vector_modules import load_arrays
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.model_files.sparse import TOKEN_VECTORS
from embedwell_models.model_files.vector_modules import projection_module
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE
from embedwell_models.vectors import Floats, normalize

if TYPE_CHECKING:
    from embedwell_models.torch_backend.encoder import TorchEncoder

HostHead = Callable[[Floats, Batch], Floats]
"""Function from the last states (T, D) of a batch to an output, see Heads."""


Heads = Callable[[Batch, Collection[str]], dict[str, Floats]]
"""Function from a batch to the outputs of the given names.

dense: the pooled states, (B, poolings * D). sparse: the weight of each token, (T, 1). multi: the
vector of each token, (T, dim).
"""


def _host_heads(model: LoadedModel, heads: Mapping[str, HostHead]) -> Heads:
    # Heads that read the last states on the host.
    encoder, num_layers = model.encoder, model.description.spec.config.num_layers

    def compute(batch: Batch, names: Collection[str]) -> dict[str, Floats]:
        states = encoder.states(batch, num_layers)
        return {name: heads[name](states, batch) for name in names}

    return compute


def multi_vector_heads(model: LoadedModel) -> Heads:
    """Return the head of a multi-vector model, with unit length if its files say so.

    Raises ModelError for weights that are missing or of a wrong shape.
    """
    folder, sentence = model.description.path, model.description.sentence
    if encoder := _on_device(model):
        from embedwell_models.torch_backend import device_heads as on

        transforms = [on.load_transform(folder, each, encoder.device) for each in sentence.modules]
        transforms += [on.normalize] * sentence.normalize
        return on.DeviceHeads(encoder, {MULTI: on.of_tokens(transforms)})
    head = _only_head(model)
    return _host_heads(model, {MULTI: lambda states, _: head(states)})


def bge_m3_heads(model: LoadedModel, token_weights: TokenWeightVectors | None) -> Heads:
    """Return the heads of BGE-M3; raises ModelError if weights cannot be read.

    token_weights: None for a model without them.
    """
    poolings = model.description.sentence.pooling
    layer = _token_layer(model) if MULTI in model.description.outputs else None
    if encoder := _on_device(model):
        from embedwell_models.torch_backend import device_heads as on

        on_device = {DENSE: on.pooled(poolings)}
        if token_weights:
            layer_of_weights = on.linear(token_weights.layer, encoder.device, "relu")
            on_device[SPARSE] = on.of_tokens([layer_of_weights])
        if layer:
            on_device[MULTI] = on.of_tokens([on.linear(layer, encoder.device), on.normalize])
        return on.DeviceHeads(encoder, on_device)
    heads: dict[str, HostHead] = {DENSE: lambda states, batch: pool_batch(states, batch, poolings)}
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


def _projected(model: LoadedModel, layer: WeightAndBias) -> Callable[[Floats], Floats]:
    project = model.linear(*layer)
    return lambda states: normalize(project(states))


def _only_head(model: LoadedModel) -> Callable[[Floats], Floats]:
    # Of a model without a dense vector of a text.
    finish = normalize if model.description.sentence.normalize else _identity
    return lambda states: finish(model.head(states))


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
