"""Qwen3-VL (Bai et al. 2025, arXiv 2511.21631) for texts, with or without images.

In a text alone the three positions of a token are equal, so the rotations are those of a Qwen3.
"""

from dataclasses import replace

from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import llama, qwen, qwen3_vl_images
from embedwell_models.families.decoder import is_causal
from embedwell_models.families.family import Family, NextToken, Row
from embedwell_models.families.rope import rotary

_HEAD_SIZE = 128
_TEXT = "language_model."
_OTHER_TOWER = "visual.*"


def read(options: JsonConfig) -> CheckpointLayout:
    """Build the spec of a model of texts, images and videos, or of its text encoder alone."""
    is_text_encoder = options["model_type"] == "qwen3_vl_text"
    return _text_only(options) if is_text_encoder else _whole(options)


def _whole(options: JsonConfig) -> CheckpointLayout:
    """Build the spec of a model that also reads images; its videos are not read."""
    options.require("is_causal", True)
    is_causal(options, "Qwen3VL")  # refuses remote code
    text = options.nested("text_config")
    text.require("model_type", "qwen3_vl_text")
    spec = _text_only(text)
    return replace(
        spec,
        prefixes=(f"model.{_TEXT}", _TEXT),
        unused=(*spec.unused, _OTHER_TOWER, f"model.{_OTHER_TOWER}"),
        image_tokens=qwen3_vl_images.image_tokens(options, spec.config.hidden_size),
    )


def _text_only(options: JsonConfig) -> CheckpointLayout:
    """Build the spec of a model that only has a text encoder."""
    options.require("is_causal", True)
    biased = options.get("attention_bias", False)
    config = llama.config(
        options,
        head_size=_HEAD_SIZE,
        causal=is_causal(options, "Qwen3VLText"),
        positions=rotary(options, options.get("head_dim", _HEAD_SIZE), base=500_000.0),
    )
    return llama.spec(config, llama.tensors(biased, biased, False) | qwen.NORMS)


FAMILIES = (
    Family(
        model_types=("qwen3_vl", "qwen3_vl_text"),
        name="qwen3_vl",
        read=read,
        next_token=NextToken(tied=False),
        instruction="Represent the user's input.",  # from github.com/QwenLM/Qwen3-VL-Embedding
        rows=(
            Row(
                family="Qwen3-VL, [texts only](#chat-templates)",
                models="Qwen3-VL-Embedding",
                positions="rotary",
                layers="as Qwen 3, texts in a chat template",
            ),
        ),
    ),
)
