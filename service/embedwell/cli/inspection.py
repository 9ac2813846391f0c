"""Describe a model without loading its weights, for `embedwell inspect`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.cpu_backend import library
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.loading.backends import expect_passes, expect_torch
from embedwell_models.positions.schemes import Scheme


def inspect(
    description: ModelDescription, device: str = "cpu", isa: str = "auto", dtype: str = "auto"
) -> dict[str, Any]:
    """Return the properties of a model folder; raises ModelError if it cannot be read.

    device, isa, dtype: with which the model would be loaded, see
    embedwell_models.embedder.Embedder.load.
    """
    config, recipe = description.spec.config, description.recipe
    tokenizer, images = description.tokenizer(), description.images
    footprint = Footprint.of(description)
    passes = expect_passes(description, device, dtype)
    return {
        "task": description.task,
        "labels": list(description.classifier.labels) if description.classifier else [],
        "lists": _lists(description),
        "family": config.family,
        **_layers(config),
        "max_positions": config.max_positions,
        "positions": list(_positions(config)),
        "tokenizer": {"kind": tokenizer.model_type, "vocab_size": tokenizer.vocab_size},
        "max_length": recipe.max_length,
        "truncation_side": tokenizer.side,
        "lowercase": recipe.lowercase,
        "pooling": recipe.pooling,
        "pooling_source": recipe.pooling_source,
        "include_prompt": recipe.include_prompt,
        "modules": [{"kind": type(step).__name__, **asdict(step)} for step in recipe.modules],
        "normalize": recipe.normalize,
        "dim": description.dim,
        "modalities": ["text", "image"] if description.reads_images else ["text"],
        "images": {"side": images.image_size, "tokens": images.tokens} if images else {},
        "prompts": recipe.prompts,
        "default_prompt": recipe.default_prompt,
        "weights": {"format": description.weights_format, **description.stored_numbers},
        "parameters": description.parameters,
        "memory_bytes": dict(footprint.memory),
        "torch": expect_torch(description, device, library.features(isa)),
        "gpu": passes.as_json() if passes else None,
        "fingerprint": model_fingerprint.fingerprint(description),
    }


def lines(properties: Mapping[str, Any]) -> Iterator[str]:
    """Format the properties as text, one or more lines for each."""
    width = max(map(len, properties)) + 2
    for name, value in properties.items():
        parts = value if isinstance(value, list) else [value]
        for index, part in enumerate(parts or [()]):
            yield f"{'' if index else name:{width}}{_as_text(part)}"


def _lists(description: ModelDescription) -> dict[str, Any]:
    # Limits of a reranker that reads documents together.
    if (lists := description.listwise) is None:
        return {}
    read = lists.format
    return {
        "documents": read.max_documents,
        "tokens": lists.max_length,
        "query_tokens": read.max_query,
        "document_tokens": read.max_document,
    }


def _layers(config: EncoderConfig) -> dict[str, Any]:
    # Of sizes that differ among layers, those of the first.
    attention, network = config.attention, config.feed_forward
    return {
        "num_layers": config.num_layers,
        "num_heads": attention.heads,
        "num_kv_heads": attention.kv_heads,
        "hidden_size": config.hidden_size,
        "intermediate_size": network.inner,
        "activation": network.activation,
        "gated": network.gated,
        "norm": config.norm,
        "arrangement": config.arrangement,
        "causal": config.causal,
    }


def _positions(config: EncoderConfig) -> Iterator[dict[str, Any]]:
    # The different schemes of the input and of the layers.
    schemes = (config.input_positions, *(layer.positions for layer in config.layers))
    for scheme in dict.fromkeys(schemes):
        if scheme.name != Scheme.name:
            yield {"scheme": scheme.name, **asdict(scheme)}


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_as_text(part)}" for name, part in value.items()) or "none"
    if isinstance(value, tuple):
        return ", ".join(map(_as_text, value)) or "none"
    if isinstance(value, str) and not value.strip() == value != "":
        return json.dumps(value)  # a prompt can begin or end with a space
    return str(value)
