"""Image encoder of Qwen2-VL (arXiv 2409.12191), whose vectors are tokens of a text."""

from collections.abc import Mapping

from embedwell_models.config.checkpoint_layout import (
    CheckpointLayout,
    ImageTokenSpec,
    affine,
    affine_shapes,
)
from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.families.qwen3_vl_images import (
    CHANNELS,
    EPS,
    LAYERS,
    axial_rotary,
    mrope_sections,
)

ENDS = {  # also of Qwen2.5-VL
    "patch_embed.proj.weight": "patch.weight",
    **affine("merger.mlp.0", "merger.up"),
    **affine("merger.mlp.2", "merger.down"),
}
_TENSORS = {
    **ENDS,
    **LAYERS,
    **affine("blocks.{}.mlp.fc1", "layers.{}.up"),
    **affine("blocks.{}.mlp.fc2", "layers.{}.down"),
    **affine("merger.ln_q", "merger.norm"),
}
_SECTIONS = (16, 24, 24)


def image_tokens(options: JsonConfig, text: JsonConfig, config: EncoderConfig) -> ImageTokenSpec:
    """Build the spec from config.json.

    text: options of the text encoder. config: its configuration. Raises ModelError for an option
    that is not supported.
    """
    vision = options.nested("vision_config")
    vision.require("model_type", "qwen2_vl_vision", "qwen2_vl")
    if vision.get("hidden_size", 3584) != config.hidden_size:
        raise vision.unsupported("hidden_size", vision["hidden_size"], config.hidden_size)
    encoder = image_encoder(vision, _config(vision), _TENSORS, config.hidden_size)
    return image_token_spec(options, text, config, encoder)


def image_encoder(
    vision: JsonConfig, config: EncoderConfig, tensors: Mapping[str, str], out: int
) -> CheckpointLayout:
    """Build the layout of an image encoder, whose tokens have the width `out`."""
    vision.require("in_channels", CHANNELS)
    joined = config.hidden_size * vision.get("spatial_merge_size", 2) ** 2
    pixels = vision.get("temporal_patch_size", 2) * vision.get("patch_size", 14) ** 2
    norm = [name for name in ("merger.norm.weight", "merger.norm.bias") if name in tensors.values()]
    return CheckpointLayout(
        config=config,
        tensors=tensors,
        unused=("language_model.*", "model.*", "lm_head.weight"),
        prefixes=("model.visual.", "visual."),
        shapes={
            "patch.weight": (config.hidden_size, CHANNELS * pixels),
            **dict.fromkeys(norm, (config.hidden_size,)),
            **affine_shapes("merger.up", (joined, joined)),
            **affine_shapes("merger.down", (out, joined)),
        },
    )


def image_token_spec(
    options: JsonConfig, text: JsonConfig, config: EncoderConfig, encoder: CheckpointLayout
) -> ImageTokenSpec:
    """Build the spec of an image encoder whose tokens have positions of time, row and column."""
    vision = options.nested("vision_config")
    return ImageTokenSpec(
        encoder=encoder,
        patch_size=vision.get("patch_size", 14),
        frames=vision.get("temporal_patch_size", 2),
        merge=vision.get("spatial_merge_size", 2),
        grid=0,
        deepstack=(),
        id=options.get("image_token_id", 151_655),
        sections=mrope_sections(text, _SECTIONS, config.attention.head_size // 2),
        in_turns=False,
    )


def _config(vision: JsonConfig) -> EncoderConfig:
    width, heads = vision.get("embed_dim", 1280), vision.get("num_heads", 16)
    return plain_config(
        vocab_size=0,
        hidden_size=width,
        num_layers=vision.get("depth", 32),
        num_heads=heads,
        intermediate_size=width * vision.get("mlp_ratio", 4),
        max_positions=1,  # there is no table
        activation=vision.choice("hidden_act", ACTIVATIONS, "quick_gelu"),
        norm_eps=EPS,
        positions=axial_rotary(vision, width // heads),
        arrangement="pre",
    )
