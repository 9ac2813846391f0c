"""ColModernVBERT of random weights, with its processor and a tokenizer of bytes."""

from pathlib import Path
from typing import Any

from transformers import (
    ColModernVBertConfig,
    ColModernVBertForRetrieval,
    ColModernVBertProcessor,
    Idefics3ImageProcessorPil,
    PreTrainedTokenizerFast,
)

from tests.models import kinds
from tests.models.page_models import save_randomized

SIDE, TOKENS = 64, 4
_MARKS = [
    *("<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"),
    *(f"<row_{row}_col_{column}>" for row in (1, 2, 3) for column in (1, 2, 3)),
]
_VISION = {
    **{"model_type": "siglip_vision_model", "image_size": SIDE, "patch_size": 16},
    **{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2},
    "intermediate_size": 128,
}


def write_processor(folder: Path, *, image: Any = (), max_length: int = 256, **options: Any) -> Any:
    """Save a configuration and a processor, and return the processor.

    image: options of the images. options: others.
    """
    rust = kinds.roberta()
    rust.add_special_tokens(_MARKS)
    fast: Any = PreTrainedTokenizerFast
    names = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>"}
    tokenizer = fast(tokenizer_object=rust, model_max_length=max_length, **names)
    sizes = {"size": {"longest_edge": 2 * SIDE}, "max_image_size": {"longest_edge": SIDE}}
    images = Idefics3ImageProcessorPil(**{**sizes, **dict(image)})
    processor: Any = ColModernVBertProcessor(images, tokenizer, image_seq_len=TOKENS, **options)
    processor.save_pretrained(folder)
    _config(processor).save_pretrained(folder)
    return processor


def write_colmodernvbert(folder: Path, **options: Any) -> tuple[Any, Any]:
    """Save a model and its processor, and return both. options: of the processor."""
    processor = write_processor(folder, **options)
    return save_randomized(ColModernVBertForRetrieval(_config(processor)), folder), processor


def _config(processor: Any) -> Any:
    text = {
        **{"model_type": "modernbert", "vocab_size": len(processor.tokenizer), "hidden_size": 64},
        **{"num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 96},
        **{"pad_token_id": 1, "cls_token_id": 0, "sep_token_id": 2, "norm_eps": 0.05},
        **{"bos_token_id": 0, "eos_token_id": 2, "local_attention": 16},
    }
    parts = {"text_config": text, "vision_config": _VISION, "pixel_shuffle_factor": 2}
    vlm = {"model_type": "modernvbert", **parts, "image_token_id": processor.image_token_id}
    return ColModernVBertConfig(vlm_config=vlm, embedding_dim=16)
