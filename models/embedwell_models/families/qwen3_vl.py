"""Qwen3-VL (Bai et al. 2025, arXiv 2511.21631) for texts, with or without images.

In a text alone the three positions of a token are equal, so the rotations are those of a Qwen3.
"""

from dataclasses import replace

from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import llama, qwen
from embedwell_models.families.decoder import is_causal
from embedwell_models.families.family import Family, NextToken, Row
from embedwell_models.families.qwen3_vl_images import image_tokens
from embedwell_models.families.rope import rotary
from embedwell_models.families.text_config import read_text_config

_HEAD_SIZE = 128


def read(options: JsonConfig) -> CheckpointLayout:
    """Build the spec of a model of texts, images and videos, or of its text encoder alone."""
    if options["model_type"] == "qwen3_vl_text":
        return _text_only(options)
    spec = read_text_config(options, "Qwen3VL", {"qwen3_vl_text": _text_only}, ("visual",))
    return replace(spec, image_tokens=image_tokens(options, spec.config.hidden_size))


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
                family="Qwen3-VL",
                models="Qwen3-VL-Embedding",
                positions="rotary",
                layers="as Qwen 3, [texts and images](image-inputs.md#texts-with-images)",
            ),
        ),
    ),
)
