"""ColPali of random weights, with its processor and a tokenizer of pieces."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import (
    ColPaliConfig,
    ColPaliForRetrieval,
    ColPaliProcessor,
    PreTrainedTokenizerFast,
    SiglipImageProcessorPil,
)

from tests.models import kinds
from tests.models.page_models import save_randomized

SIDE, TOKENS = 64, 16
SIZES: dict[str, Any] = {
    **{"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 16},
    **{"num_key_value_heads": 1, "intermediate_size": 96, "rms_norm_eps": 0.05},
}
# Sizes that the kernels compute; those above are torch's.
OF_KERNELS: dict[str, Any] = {**SIZES, "num_attention_heads": 2, "head_dim": 32}
_VISION = {
    **{"model_type": "siglip_vision_model", "image_size": SIDE, "patch_size": 16},
    **{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"intermediate_size": 128, "projection_dim": 64},
}


def write_processor(folder: Path, *, max_length: int = 256, **options: Any) -> Any:
    """Save a processor, and return it. options: its options."""
    rust = kinds.gemma()
    rust.add_special_tokens(["<bos>", "<eos>", "<pad>", "<image>"])
    fast: Any = PreTrainedTokenizerFast
    names = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>"}
    rust.post_processor = None
    tokenizer = fast(tokenizer_object=rust, model_max_length=max_length, **names)
    images: Any = SiglipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    images.image_seq_length = TOKENS
    processor: Any = ColPaliProcessor(images, tokenizer, **options)
    processor.save_pretrained(folder)
    return processor


def write_config(processor: Any, folder: Path, sizes: Mapping[str, Any] = SIZES) -> Any:
    """Save a configuration, and return it. sizes: of the text encoder."""
    text = {"model_type": "gemma", "vocab_size": len(processor.tokenizer) + 3, **sizes}
    vlm = {
        **{"model_type": "paligemma", "text_config": text, "vision_config": _VISION},
        **{"image_token_id": processor.image_token_id, "projection_dim": 64},
    }
    config = ColPaliConfig(vlm_config=vlm, embedding_dim=16)
    config.save_pretrained(folder)
    return config


def write_colpali(
    folder: Path, *, sizes: Mapping[str, Any] = SIZES, **options: Any
) -> tuple[Any, Any]:
    """Save a model and its processor, and return both. options: of the processor."""
    processor = write_processor(folder, **options)
    return save_randomized(
        ColPaliForRetrieval(write_config(processor, folder, sizes)), folder
    ), processor
