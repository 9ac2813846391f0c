"""Refusal of models that are not text embedders or rerankers with plain weights."""

from pathlib import Path

from embedwell_models.checkpoint.quantized import folder as quantized
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError


def refuse_changed_weights(encoder: Path) -> None:
    """Raise ModelError for an encoder with an adapter or unknown quantised weights."""
    adapter = JsonConfig.optional(encoder / "adapter_config.json")
    if adapter.path.exists():
        raise ModelError(
            f"{adapter.path}: an adapter ({adapter.get('peft_type')}) beside a whole model: delete "
            "its files if the weights have it; otherwise put them into a folder of their own"
        )
    quantized.scheme(encoder)
