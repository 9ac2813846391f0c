"""Qwen2.5-VL (Bai et al. 2025, arXiv 2502.13923) for texts, with or without images.

Most layers of its image encoder attend within square windows.
"""

from dataclasses import replace

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families.family import DocsRow
from embedwell_vision.families import qwen2_vl
from embedwell_vision.families.qwen3_vl import image_config
from embedwell_vision.specs import ImageTokenSpec

_TEXT = "qwen2_5_vl_text"
_LAYER = "blocks.{}"
_IMAGE_TENSORS = {
    **qwen2_vl.IMAGE_ENDS,
    "merger.ln_q.weight": "connector.norm.weight",
    f"{_LAYER}.norm1.weight": "layers.{}.attention_norm.weight",
    f"{_LAYER}.norm2.weight": "layers.{}.ffn_norm.weight",
    **affine(f"{_LAYER}.attn.qkv", "layers.{}.query|key|value"),
    **affine(f"{_LAYER}.attn.proj", "layers.{}.output"),
    **affine(f"{_LAYER}.mlp.gate_proj", "layers.{}.gate"),
    **affine(f"{_LAYER}.mlp.up_proj", "layers.{}.up"),
    **affine(f"{_LAYER}.mlp.down_proj", "layers.{}.down"),
}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts, images and videos, or of its text encoder alone."""
    return qwen2_vl.read_model(options, "Qwen2_5_VL", _TEXT, image_tokens)


def image_tokens(options: JsonConfig, text: JsonConfig, config: EncoderConfig) -> ImageTokenSpec:
    """Build the spec of the image encoder; the arguments and errors are those of Qwen2-VL's."""
    vision = options.nested("vision_config")
    vision.require("model_type", "qwen2_5_vl_vision", "qwen2_5_vl")
    if vision.get("out_hidden_size", 3584) != config.hidden_size:
        raise vision.unsupported("out_hidden_size", vision["out_hidden_size"], config.hidden_size)
    images = image_config(
        vision,
        vision.get("hidden_size", 3584),
        depth=32,
        inner=vision.get("intermediate_size", 3420),
        activation="silu",
        gated=True,
        norm="rms",
    )
    whole = tuple(vision.get("fullatt_block_indexes", [7, 15, 23, 31]))
    if not all(index in range(images.num_layers) for index in whole):
        raise vision.unsupported("fullatt_block_indexes", whole, "numbers of layers")
    encoder = qwen2_vl.image_encoder(vision, images, _IMAGE_TENSORS, config.hidden_size)
    spec = qwen2_vl.image_token_spec(options, text, config, encoder)
    window = vision.get("window_size", 112) // spec.merge // spec.patch_size
    if window < 1:
        least = spec.merge * spec.patch_size
        raise vision.unsupported("window_size", vision["window_size"], f"{least} pixels or more")
    return replace(spec, window=window, whole_layers=whole)


FAMILIES = (
    replace(
        qwen2_vl.QWEN2_VL,
        model_types=("qwen2_5_vl", _TEXT),
        name="qwen2_5_vl",
        read=read,
        ignored_keys=(*qwen2_vl.QWEN2_VL.ignored_keys, "tokens_per_second"),  # of videos
        row=DocsRow(
            "Qwen2.5-VL",
            "trained with sentence-transformers",
            positions="rotary",
            layers="as Qwen2-VL, windows in the image encoder",
        ),
    ),
)
