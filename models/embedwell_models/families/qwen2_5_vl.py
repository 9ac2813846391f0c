"""Qwen2.5-VL (Bai et al. 2025, arXiv 2502.13923) for texts, with or without images."""

from dataclasses import replace

from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import qwen2_vl
from embedwell_models.families.family import Row
from embedwell_models.families.qwen2_5_vl_images import image_tokens

_TEXT = "qwen2_5_vl_text"


def read(options: JsonConfig) -> CheckpointLayout:
    """Build the spec of a model of texts, images and videos, or of its text encoder alone."""
    return qwen2_vl.read_model(options, "Qwen2_5_VL", _TEXT, image_tokens)


FAMILIES = (
    replace(
        qwen2_vl.QWEN2_VL,
        model_types=("qwen2_5_vl", _TEXT),
        name="qwen2_5_vl",
        read=read,
        ignored_keys=(*qwen2_vl.QWEN2_VL.ignored_keys, "tokens_per_second"),  # of videos
        rows=(
            Row(
                family="Qwen2.5-VL",
                models="trained with sentence-transformers",
                positions="rotary",
                layers="as Qwen2-VL, windows in the image encoder",
            ),
        ),
    ),
)
