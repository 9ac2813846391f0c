"""Qwen3-VL (Bai et al. 2025, arXiv 2511.21631) for texts, with or without images.

In a text alone the three positions of a token are equal, so the rotations are those of a Qwen3. The
vectors of an image are tokens of a text; states of earlier layers of its encoder are added to the
text encoder's states (DeepStack; arXiv 2406.04334).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine, affine_shapes
from embedwell_models.families import llama, qwen
from embedwell_models.families.decoder import is_causal, read_text_config
from embedwell_models.families.family import DocsRow, Family, NextToken
from embedwell_models.families.rope import rotary
from embedwell_models.positions.schemes import Rotary
from embedwell_vision.specs import ImageTokenSpec

_HEAD_SIZE = 128
_LAYER = "blocks.{}"
IMAGE_LAYERS = {  # also of Qwen2-VL
    **affine(f"{_LAYER}.norm1", "layers.{}.attention_norm"),
    **affine(f"{_LAYER}.norm2", "layers.{}.ffn_norm"),
    **affine(f"{_LAYER}.attn.qkv", "layers.{}.query|key|value"),
    **affine(f"{_LAYER}.attn.proj", "layers.{}.output"),
}
_IMAGE_TENSORS = {
    **affine("patch_embed.proj", "patch"),
    "pos_embed.weight": "patch.positions",
    **IMAGE_LAYERS,
    **affine(f"{_LAYER}.mlp.linear_fc1", "layers.{}.up"),
    **affine(f"{_LAYER}.mlp.linear_fc2", "layers.{}.down"),
}
_MERGER = {"norm": "norm", "linear_fc1": "up", "linear_fc2": "down"}
_OUTSIDE_IMAGES = ("language_model.*", "model.language_model.*", "lm_head.weight")
CHANNELS = 3
_IMAGE_EPS = 1e-6
_PIXELS = (4 * 32**2, 1800 * 32**2)  # from github.com/QwenLM/Qwen3-VL-Embedding


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts, images and videos, or of its text encoder alone."""
    if options["model_type"] == "qwen3_vl_text":
        return _text_only(options)
    spec = read_text_config(options, "Qwen3VL", {"qwen3_vl_text": _text_only}, ("visual",))
    return replace(spec, image_tokens=image_tokens(options, spec.config.hidden_size))


def _text_only(options: JsonConfig) -> ModelSpec:
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


def image_tokens(
    options: JsonConfig,
    width: int,
    *,
    kinds: Sequence[str] = ("qwen3_vl_vision", "qwen3_vl"),
    deepstack: Sequence[int] = (8, 16, 24),
    sections: tuple[int, int, int] = (24, 20, 20),
) -> ImageTokenSpec | None:
    """Build the spec of the image encoder; None for a file without vision_config.

    width: of the text encoder's states. kinds: allowed model types of the image encoder.
    deepstack, sections: the options by default.

    Raises ModelError for an option that is not supported.
    """
    if not options.get("vision_config", {}):
        return None
    vision = options.nested("vision_config")
    vision.require("model_type", *kinds)
    vision.require("in_channels", CHANNELS)
    if vision.get("out_hidden_size", 3584) != width:
        raise vision.unsupported("out_hidden_size", vision["out_hidden_size"], width)
    config = image_config(
        vision,
        vision.get("hidden_size", 1152),
        depth=27,
        inner=vision.get("intermediate_size", 4304),
        activation="gelu_pytorch_tanh",
    )
    deepstack = tuple(vision.get("deepstack_visual_indexes", [*deepstack]))
    if not all(index in range(config.num_layers) for index in deepstack):
        raise vision.unsupported("deepstack_visual_indexes", deepstack, "numbers of layers")
    return ImageTokenSpec(
        encoder=_image_encoder(vision, config, len(deepstack), width),
        patch_size=vision.get("patch_size", 16),
        frames=vision.get("temporal_patch_size", 2),
        merge=vision.get("spatial_merge_size", 2),
        grid=_grid(vision),
        deepstack=deepstack,
        id=options.get("image_token_id", 151_655),
        sections=_interleaved(options.nested("text_config"), sections),
        pixels=_PIXELS,
    )


def _image_encoder(
    vision: JsonConfig, config: EncoderConfig, deepstack: int, width: int
) -> ModelSpec:
    # deepstack: number of layers whose states are added. width: of the text encoder's states.
    patch, frames = vision.get("patch_size", 16), vision.get("temporal_patch_size", 2)
    merge = vision.get("spatial_merge_size", 2)
    names = {
        "merger": "connector",
        **{f"deepstack_merger_list.{place}": f"connector.{place}" for place in range(deepstack)},
    }
    return ModelSpec(
        config=config,
        tensors=_IMAGE_TENSORS | _mergers(names),
        unused=_OUTSIDE_IMAGES,
        prefixes=("model.visual.", "visual."),
        shapes={
            **_image_shapes(config, CHANNELS * frames * patch**2, merge, names.values(), width),
            "patch.positions": (_grid(vision) ** 2, config.hidden_size),
        },
    )


def image_config(
    vision: JsonConfig, width: int, *, depth: int, inner: int, activation: str, **others: Any
) -> EncoderConfig:
    """Build the configuration of an image encoder of Qwen; raises ModelError.

    depth, activation: the options by default. others: see `plain_config`.
    """
    heads, rotation = vision.get("num_heads", 16), vision.nested("rope_parameters")
    rotation.require("rope_type", "axial")  # by the row and the column of a patch
    base = float(rotation.get("rope_theta", 10_000.0))
    return plain_config(
        vocab_size=0,
        hidden_size=width,
        num_layers=vision.get("depth", depth),
        num_heads=heads,
        intermediate_size=inner,
        max_positions=1,  # there is no table, or it is stretched
        activation=vision.choice("hidden_act", ACTIVATIONS, activation),
        norm_eps=_IMAGE_EPS,
        positions=Rotary(dim=width // heads, base=base),
        arrangement="pre",
        **others,
    )


def _grid(vision: JsonConfig) -> int:
    return int(vision.get("num_position_embeddings", 2304) ** 0.5)


def _mergers(names: Mapping[str, str]) -> dict[str, str]:
    return {
        theirs: ours
        for name, connector in names.items()
        for part, own in _MERGER.items()
        for theirs, ours in affine(f"{name}.{part}", f"{connector}.{own}").items()
    }


def _image_shapes(
    config: EncoderConfig, pixels: int, merge: int, connectors: Iterable[str], out: int
) -> dict[str, tuple[int, ...]]:
    width, joined = config.hidden_size, config.hidden_size * merge**2
    shapes = affine_shapes("patch", (width, pixels))
    for name in connectors:
        normed = width if name == "connector" else joined
        shapes |= {f"{name}.norm.{part}": (normed,) for part in ("weight", "bias")}
        shapes |= affine_shapes(f"{name}.up", (joined, joined))
        shapes |= affine_shapes(f"{name}.down", (out, joined))
    return shapes


def mrope_sections(
    text: JsonConfig, default: tuple[int, int, int], pairs: int | None = None
) -> tuple[int, int, int]:
    """Read the numbers of pairs that the time, row and column of a token rotate.

    text: options of the text encoder. pairs: their sum; None for any. Raises ModelError for others.
    """
    settings = _rope_settings(text)
    sections = settings.get("mrope_section", list(default))
    if len(sections) != len(default) or not all(type(each) is int for each in sections):
        raise settings.unsupported("mrope_section", sections, "three whole numbers")
    if pairs is not None and sum(sections) != pairs:
        raise settings.unsupported("mrope_section", sections, f"numbers of the sum {pairs}")
    time, row, column = sections
    return time, row, column


def _interleaved(text: JsonConfig, sections: tuple[int, int, int]) -> tuple[int, int, int]:
    _rope_settings(text).require("mrope_interleaved", True)
    return mrope_sections(text, sections)


def _rope_settings(text: JsonConfig) -> JsonConfig:
    older = text.nested("rope_scaling") if text.get("rope_scaling", {}) else None
    return older or text.nested("rope_parameters")


FAMILIES = (
    Family(
        model_types=("qwen3_vl", "qwen3_vl_text"),
        name="qwen3_vl",
        read=read,
        next_token=NextToken(tied=False),
        instruction="Represent the user's input.",  # from github.com/QwenLM/Qwen3-VL-Embedding
        row=DocsRow(
            "Qwen3-VL",
            "Qwen3-VL-Embedding",
            positions="rotary",
            layers="as Qwen 3, [texts and images](image-inputs.md#texts-with-images)",
        ),
    ),
)
