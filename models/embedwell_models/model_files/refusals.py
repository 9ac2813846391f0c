"""Refusal of models that are not text embedders or rerankers with plain weights."""

from pathlib import Path

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError


def refuse_changed_weights(encoder: Path) -> None:
    """Raise ModelError for an encoder with adapters or quantised weights."""
    adapter = JsonConfig.optional(encoder / "adapter_config.json")
    if adapter.path.exists():
        raise ModelError(
            f"{adapter.path}: an adapter ({adapter.get('peft_type')}) is not applied: merge it "
            "into the weights with PEFT (merge_and_unload), and save the model without it"
        )
    config = JsonConfig.optional(encoder / "config.json")
    if config.get("quantization_config") is not None:
        method = config.nested("quantization_config").get("quant_method")
        raise ModelError(
            f"{config.path}: quantization_config: weights that are stored quantised ({method}) are "
            "not supported: serve the original ones; EMBEDWELL_DTYPE=int8 quantises those"
        )
