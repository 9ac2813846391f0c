"""Qwen2-VL (Wang et al. 2024, arXiv 2409.12191) for texts, with or without images.

GME (Zhang et al. 2024, arXiv 2412.16855) is one whose own code reads both. It gives tokens of an
image the positions of tokens of a text.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine, affine_shapes
from embedwell_models.families import llama, qwen
from embedwell_models.families.decoder import is_causal, read_text_config, without_towers
from embedwell_models.families.family import DocsRow, Family, Variant
from embedwell_models.families.rope import rotary
from embedwell_vision.families.qwen3_vl import (
    CHANNELS,
    IMAGE_LAYERS,
    image_config,
    mrope_sections,
)
from embedwell_vision.specs import ImageTokenSpec

_TEXT = "qwen2_vl_text"
_DEFAULTS = {"rms_norm_eps": 1e-5, "num_key_value_heads": 8, "max_window_layers": 80}
_TOWERS = ("visual",)
_CODE = "GmeQwen2VL"
_TOKENS = {"min_image_tokens": 256, "max_image_tokens": 1280}  # of GME's code
_EARLIER_TOKENS = (4, 16_384)
IMAGE_ENDS = {  # also of Qwen2.5-VL
    "patch_embed.proj.weight": "patch.weight",
    **affine("merger.mlp.0", "connector.up"),
    **affine("merger.mlp.2", "connector.down"),
}
_IMAGE_TENSORS = {
    **IMAGE_ENDS,
    **IMAGE_LAYERS,
    **affine("blocks.{}.mlp.fc1", "layers.{}.up"),
    **affine("blocks.{}.mlp.fc2", "layers.{}.down"),
    **affine("merger.ln_q", "connector.norm"),
}
_SECTIONS = (16, 24, 24)
ImageReader = Callable[[JsonConfig, JsonConfig, EncoderConfig], ImageTokenSpec]


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts, images and videos, or of its text encoder alone."""
    return read_model(options, "Qwen2VL", _TEXT, image_tokens)


def read_model(options: JsonConfig, classes: str, text_type: str, images: ImageReader) -> ModelSpec:
    """Build the spec of a model of texts and images, or of its text encoder alone.

    classes: prefix of their names. text_type: model_type of the text encoder. images: reads the
    image encoder from the options, the options of the text encoder, and its configuration.
    """
    if options["model_type"] == text_type:
        return _text_only(options)
    if options.get("text_config", {}):
        spec = read_text_config(options, classes, {text_type: _text_only}, _TOWERS)
        text = options.nested("text_config")
    else:  # as before transformers 4.52
        options.require("is_causal", True)
        is_causal(options, classes)  # refuses remote code
        spec, text = without_towers(_text_only(options), _TOWERS), options
    return replace(
        spec,
        prefixes=(*spec.prefixes, "model."),  # as transformers saves the text encoder
        image_tokens=images(options, text, spec.config),
    )


def gme(options: JsonConfig) -> ModelSpec:
    """Build the spec of a GME, whose code resizes an image twice."""
    spec = read(options.without("auto_map").without("architectures"))
    images = spec.image_tokens
    assert isinstance(images, ImageTokenSpec)
    area = (images.patch_size * images.merge) ** 2
    least, most = (options.get(key, count) * area for key, count in _TOKENS.items())
    earlier = _EARLIER_TOKENS[0] * area, _EARLIER_TOKENS[1] * area
    changed = replace(images, sections=None, pixels=(least, most), earlier_pixels=earlier)
    return replace(spec, image_tokens=changed)


def _is_gme(options: JsonConfig) -> bool:
    code = str(options.get("auto_map", {}).get("AutoModel", "")).rpartition(".")[2]
    return _CODE in (code, *options.get("architectures", ()))


def _text_only(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model that only has a text encoder: a Qwen2."""
    options.require("is_causal", True)
    text = _with_plain_rope(options).with_defaults(_DEFAULTS)
    width, heads = text["hidden_size"], text["num_attention_heads"]
    config = llama.config(
        text.without("head_dim"),
        causal=True,
        windows=qwen.windows(text, causal=True),
        positions=rotary(text, width // heads, base=1_000_000.0),
    )
    return llama.spec(config, llama.tensors(True, False, False))


def _with_plain_rope(options: JsonConfig) -> JsonConfig:
    # A text alone has the usual rotations, which older files call "mrope".
    for key in ("rope_scaling", "rope_parameters"):
        settings = options.get(key, {})
        if "mrope" in (settings.get("rope_type"), settings.get("type")):
            options = options.with_values({key: {**settings, "rope_type": "default"}})
    return options


def image_tokens(options: JsonConfig, text: JsonConfig, config: EncoderConfig) -> ImageTokenSpec:
    """Build the spec of the image encoder, whose vectors are tokens of a text.

    text: options of the text encoder. config: its configuration. Raises ModelError for an option
    that is not supported.
    """
    vision = options.nested("vision_config")
    vision.require("model_type", "qwen2_vl_vision", "qwen2_vl")
    if vision.get("hidden_size", 3584) != config.hidden_size:
        raise vision.unsupported("hidden_size", vision["hidden_size"], config.hidden_size)
    width = vision.get("embed_dim", 1280)
    inner = width * vision.get("mlp_ratio", 4)
    images = image_config(vision, width, depth=32, inner=inner, activation="quick_gelu")
    encoder = image_encoder(vision, images, _IMAGE_TENSORS, config.hidden_size)
    return image_token_spec(options, text, config, encoder)


def image_encoder(
    vision: JsonConfig, config: EncoderConfig, tensors: Mapping[str, str], out: int
) -> ModelSpec:
    """Build the spec of an image encoder, whose tokens have the width `out`."""
    vision.require("in_channels", CHANNELS)
    joined = config.hidden_size * vision.get("spatial_merge_size", 2) ** 2
    pixels = vision.get("temporal_patch_size", 2) * vision.get("patch_size", 14) ** 2
    norm = [name for name in tensors.values() if name.startswith("connector.norm.")]
    return ModelSpec(
        config=config,
        tensors=tensors,
        unused=("language_model.*", "model.*", "lm_head.weight"),
        prefixes=("model.visual.", "visual."),
        shapes={
            "patch.weight": (config.hidden_size, CHANNELS * pixels),
            **dict.fromkeys(norm, (config.hidden_size,)),
            **affine_shapes("connector.up", (joined, joined)),
            **affine_shapes("connector.down", (out, joined)),
        },
    )


def image_token_spec(
    options: JsonConfig, text: JsonConfig, config: EncoderConfig, encoder: ModelSpec
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


QWEN2_VL = Family(
    model_types=("qwen2_vl", _TEXT),
    name="qwen2_vl",
    read=read,
    instruction="You are a helpful assistant.",
    ignored_keys=("in_chans", "spatial_patch_size"),  # stated by other keys, too
    row=DocsRow(
        "Qwen2-VL",
        "trained with sentence-transformers",
        positions="rotary",
        layers="as Qwen 2, [texts and images](image-inputs.md#texts-with-images)",
    ),
)
FAMILIES = (
    QWEN2_VL,
    replace(
        QWEN2_VL,
        model_types=(Variant("qwen2_vl", _CODE, _is_gme),),
        name="gme",
        read=gme,
        text_format="embedwell_vision.text_formats:GME",
        published_pooling="lasttoken",
        replaced_code=(_CODE,),
        replaces_module=True,
        row=DocsRow("GME", "gme-Qwen2-VL-2B, -7B", positions="rotary", layers="as Qwen2-VL"),
    ),
)
