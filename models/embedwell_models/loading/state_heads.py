"""Heads over all states of a text, and layers and weights between an encoder and its pooling."""

import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.model_spec import StateLayersSpec
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Encoder, LinearFactory
from embedwell_models.encoder.vector_modules import VectorHead
from embedwell_models.model_files.sparse import Splade

if TYPE_CHECKING:  # imported for a SPLADE model
    from embedwell_models.encoder.splade import MaskedLMWeights, SpladeHead

L = TypeVar("L")  # a backend's factory of linear layers


def head_of_states(
    description: ModelDescription,
    weights: Weights,
    splade_head: "Callable[[Splade, MaskedLMWeights, L], SpladeHead]",
    loader: Literal["in_kernels", "on_torch"],
    *,
    splade_encoder: "Callable[[Encoder, SpladeHead, int], Encoder] | None" = None,
) -> Callable[[Encoder, L], Encoder] | None:
    """Read the head of a model; return a function that adds it to an encoder, or None.

    weights: have the table of tokens, the output matrix of a SPLADE model that has none of its own.
    splade_head: builds a backend's head from its weights. loader: of StateLayersSpec.
    splade_encoder: adds a head to an encoder of as many layers; None for SpladeEncoder. Raises
    ModelError for a tensor that is missing or of a wrong shape.
    """
    splade, layers = description.recipe.sparse, description.spec.state_layers
    config = description.spec.config
    if isinstance(splade, Splade):
        from embedwell_models.encoder.splade import SpladeEncoder, load_masked_lm_weights

        add_head = splade_encoder or SpladeEncoder
        head = load_masked_lm_weights(
            description.encoder, splade.head, weights["token_table"], config.hidden_size
        )
        return lambda encoder, linear: add_head(
            encoder, splade_head(splade, head, linear), config.num_layers
        )
    if layers is not None:
        load: Callable[[Path, StateLayersSpec], Callable[[Encoder, L, int], Encoder]]
        load = pkgutil.resolve_name(getattr(layers, loader))
        add = load(description.encoder, layers)
        return lambda encoder, linear: add(encoder, linear, config.num_layers)
    return None


def with_state_functions(
    description: ModelDescription, encoder: Encoder, linear: LinearFactory, device: Device
) -> Encoder:
    """Add weights of several layers, or layers of a classifier that come before its pooling.

    linear: builds float32 layers on a CPU. device: of the encoder. Raises ModelError for weights
    that are missing or of a wrong shape.
    """
    config = description.spec.config
    if module := description.recipe.layer_weights:
        from embedwell_models.encoder.encoders_with_heads import (
            LayerMixEncoder,
            load_layer_weights,
        )

        layer_weights = load_layer_weights(description.path, module)
        if device.type != "cpu":
            from embedwell_models.torch_backend.device_heads import with_mixed_layers

            return with_mixed_layers(encoder, layer_weights, config.num_layers)
        return LayerMixEncoder(encoder, layer_weights, config.num_layers)
    classifier = description.classifier
    if classifier is None or not classifier.head.of_tokens:
        return encoder
    path, of_tokens, layers = description.path, classifier.head.of_tokens, config.num_layers
    if device.type != "cpu":
        from embedwell_models.torch_backend.device_heads import with_layers_of_tokens

        return with_layers_of_tokens(encoder, path, of_tokens, layers)
    from embedwell_models.encoder.encoders_with_heads import StateFunctionEncoder

    return StateFunctionEncoder(encoder, VectorHead(path, of_tokens, linear), layers)
