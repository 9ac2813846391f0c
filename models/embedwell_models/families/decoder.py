"""Decoders: causal masks, sliding windows, and text encoders of models that also read images."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families.family import Reader
from embedwell_models.families.unread_config import bidirectional_code

_HINT = "false where that code lets a token see those after it, else true"
_KINDS = ("full_attention", "sliding_attention")
_PREFIXES = ("model.language_model.", "language_model.model.", "language_model.")


def is_causal(options: JsonConfig, family: str) -> bool:
    """Whether a token attends only to earlier tokens; `is_causal: false` in config.json says no.

    Without this key, the name of code that is known to be bidirectional says no, too.

    family: prefixes of its class names, separated by '|'.

    Raises ModelError if only the checkpoint's own code decides it, because its class is not of the
    family or is in a file of the folder.
    """
    stated: bool | None = options.require("is_causal", None, True, False)
    if stated is not None:
        return stated
    if bidirectional_code(options):
        return False
    family_class = re.compile(f"({family})(Model|LMHeadModel|DoubleHeadsModel|For[A-Z][A-Za-z]*)")
    custom_code = {
        "architectures": [
            name for name in options.get("architectures", ()) if not family_class.fullmatch(name)
        ],
        "auto_map": options.get("auto_map", {}).get("AutoModel"),
    }
    for key, value in custom_code.items():
        if value:
            raise options.unsupported(key, value, f"any, with is_causal next to it: {_HINT}")
    return True


def sliding_window(options: JsonConfig) -> int | None:
    """Return the sliding window: None if it is null, transformers' default if it is missing."""
    window: int | None = options.nullable("sliding_window", 4096)
    return window


def layer_windows(
    options: JsonConfig, causal: bool, window: int | None, slides: Callable[[int], bool]
) -> tuple[int | None, ...]:
    """Return the number of visible tokens on each side for each layer; None for the whole text.

    slides: whether a layer has the window; used if config.json has no layer_types.

    Raises ModelError for a kind of layer that is not implemented.
    """
    layers = range(options["num_hidden_layers"])
    default = [_KINDS[window is not None and slides(layer)] for layer in layers]
    kinds = options.get("layer_types", default)
    supported = _KINDS[:1] if window is None else _KINDS
    if len(kinds) != len(layers) or not set(kinds) <= set(supported):
        raise options.unsupported("layer_types", kinds, f"{len(layers)} of {supported}")
    # A causal window counts the token itself.
    visible = window and window - causal
    return tuple(visible if kind == "sliding_attention" else None for kind in kinds)


def read_text_config(
    options: JsonConfig,
    family: str,
    readers: Mapping[str, Reader],
    towers: tuple[str, ...],
    defaults: Mapping[str, Any] | None = None,
) -> ModelSpec:
    """Build the spec of the text encoder in a decoder of texts and images.

    family: prefix of the names of its classes. readers: by the model_type in text_config. towers:
    names of the other parts of the model. defaults: for keys that text_config leaves out.
    """
    options.require("is_causal", True)
    is_causal(options, family)  # refuses remote code
    text = options.nested("text_config").with_defaults(defaults or {})
    return without_towers(text.choice("model_type", readers)(text), towers)


def without_towers(spec: ModelSpec, towers: tuple[str, ...]) -> ModelSpec:
    """Return the spec of a text encoder in the checkpoint of a model with other parts.

    towers: their names.
    """
    others = tuple(f"{prefix}{tower}.*" for prefix in ("", "model.") for tower in towers)
    return replace(spec, prefixes=_PREFIXES, unused=(*spec.unused, *others))
