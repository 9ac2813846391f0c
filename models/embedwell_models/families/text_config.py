"""Text encoders of models that also read images: the other encoders are not read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families.decoder import is_causal
from embedwell_models.families.family import Reader

_PREFIXES = ("model.language_model.", "language_model.model.", "language_model.")


def read_text_config(
    options: JsonConfig,
    family: str,
    readers: Mapping[str, Reader],
    towers: tuple[str, ...],
    defaults: Mapping[str, Any] | None = None,
) -> CheckpointLayout:
    """Build the spec of the text encoder in a decoder of texts and images.

    family: prefix of the names of its classes. readers: by the model_type in text_config. towers:
    names of the other parts of the model. defaults: for keys that text_config leaves out.
    """
    options.require("is_causal", True)
    is_causal(options, family)  # refuses remote code
    text = options.nested("text_config").with_defaults(defaults or {})
    return beside_towers(text.choice("model_type", readers)(text), towers)


def beside_towers(spec: CheckpointLayout, towers: tuple[str, ...]) -> CheckpointLayout:
    """Return the spec of a text encoder in the checkpoint of a model with other parts.

    towers: their names.
    """
    others = tuple(f"{prefix}{tower}.*" for prefix in ("", "model.") for tower in towers)
    return replace(spec, prefixes=_PREFIXES, unused=(*spec.unused, *others))
