"""Describe a model without loading its weights, for `embedwell inspect`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.folder import Folder
from embedwell_models.footprint import Footprint
from embedwell_models.positions.schemes import Scheme

_SIZES = ("num_layers", "num_heads", "num_kv_heads", "hidden_size", "intermediate_size")
_KINDS = ("activation", "gated", "norm", "arrangement", "causal", "max_positions")


def inspect(folder: Folder) -> dict[str, Any]:
    """Return the properties of a model folder; raises ModelError if it cannot be read."""
    config, sentence = folder.spec.config, folder.sentence
    tokenizer, footprint, images = folder.tokenizer(), Footprint.of(folder), folder.images
    return {
        "task": folder.task,
        "labels": list(folder.classifier.labels) if folder.classifier else [],
        "family": config.family,
        **{name: getattr(config, name) for name in (*_SIZES, *_KINDS)},
        "positions": list(_positions(config)),
        "tokenizer": {"kind": tokenizer.model_type, "vocab_size": tokenizer.vocab_size},
        "max_length": sentence.max_length,
        "truncation_side": tokenizer.side,
        "lowercase": sentence.lowercase,
        "pooling": sentence.pooling,
        "pooling_source": sentence.pooling_source,
        "include_prompt": sentence.include_prompt,
        "modules": [{"kind": type(step).__name__, **asdict(step)} for step in sentence.modules],
        "normalize": sentence.normalize,
        "dim": folder.dim,
        "images": {"side": images.image_size, "tokens": images.tokens} if images else {},
        "prompts": sentence.prompts,
        "default_prompt": sentence.default_prompt,
        "parameters": footprint.parameters,
        "memory_bytes": dict(footprint.memory),
        "fingerprint": folder.fingerprint(),
    }


def lines(properties: Mapping[str, Any]) -> Iterator[str]:
    """Format the properties as text, one or more lines for each."""
    width = max(map(len, properties)) + 2
    for name, value in properties.items():
        parts = value if isinstance(value, list) else [value]
        for index, part in enumerate(parts or [()]):
            yield f"{'' if index else name:{width}}{_as_text(part)}"


def _positions(config: EncoderConfig) -> Iterator[dict[str, Any]]:
    # The schemes of the input, of the attention, and of its local layers.
    for scheme in (config.input_positions, config.positions, config.local_positions):
        if scheme is not None and scheme.name != Scheme.name:
            yield {"scheme": scheme.name, **asdict(scheme)}


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_as_text(part)}" for name, part in value.items()) or "none"
    if isinstance(value, tuple):
        return ", ".join(map(_as_text, value)) or "none"
    if isinstance(value, str) and not value.strip() == value != "":
        return json.dumps(value)  # a prompt can begin or end with a space
    return str(value)
