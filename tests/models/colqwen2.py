"""ColQwen2 of random weights, with its processor and a tokenizer of bytes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import (
    ColQwen2Config,
    ColQwen2ForRetrieval,
    ColQwen2Processor,
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessorPil,
)

from tests.models import kinds
from tests.models.page_models import save_randomized
from tests.models.qwen2_vl import SIZES, VISION
from tests.models.qwen3_vl import MARKS

AREA = 28**2
BOUNDS: dict[str, Any] = {"size": {"shortest_edge": 4 * AREA, "longest_edge": 40 * AREA}}


def write_processor(
    folder: Path, *, image: Any = BOUNDS, max_length: int = 256, **options: Any
) -> Any:
    """Save a processor, and return it. image: options of the images. options: others."""
    rust = kinds.qwen()
    rust.add_special_tokens(MARKS)
    rust.post_processor = None
    fast: Any = PreTrainedTokenizerFast
    names = {"pad_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
    tokenizer = fast(tokenizer_object=rust, model_max_length=max_length, **names)
    images = Qwen2VLImageProcessorPil(**image)
    processor: Any = ColQwen2Processor(images, tokenizer, **options)
    processor.save_pretrained(folder)
    return processor


def write_config(processor: Any, folder: Path, sizes: Mapping[str, Any] = SIZES) -> Any:
    """Save a configuration, and return it. sizes: of the text encoder."""
    size = len(processor.tokenizer) + 3
    vlm = {
        **{"model_type": "qwen2_vl", "vision_config": VISION},
        "text_config": {"vocab_size": size, **SIZES, **sizes},
        "image_token_id": processor.image_token_id,
    }
    config = ColQwen2Config(vlm_config=vlm, embedding_dim=16)
    config.save_pretrained(folder)
    return config


def write_colqwen2(
    folder: Path, *, sizes: Mapping[str, Any] = SIZES, **options: Any
) -> tuple[Any, Any]:
    """Save a model and its processor, and return both. options: of the processor."""
    processor = write_processor(folder, **options)
    return save_randomized(
        ColQwen2ForRetrieval(write_config(processor, folder, sizes)), folder
    ), processor
