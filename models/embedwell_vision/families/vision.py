"""Image encoders of CLIP and SigLIP, which share a transformer over the patches of an image."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec, Projection
from embedwell_models.config.tensor_names import affine, affine_shapes
from embedwell_models.positions.schemes import Learned, Scheme
from embedwell_vision.specs import ImageSpec

LAYER = "encoder.layers.{}"
LAYERS = {
    **affine(f"{LAYER}.self_attn.q_proj", "layers.{}.query"),
    **affine(f"{LAYER}.self_attn.k_proj", "layers.{}.key"),
    **affine(f"{LAYER}.self_attn.v_proj", "layers.{}.value"),
    **affine(f"{LAYER}.self_attn.out_proj", "layers.{}.output"),
    **affine(f"{LAYER}.layer_norm1", "layers.{}.attention_norm"),
    **affine(f"{LAYER}.layer_norm2", "layers.{}.ffn_norm"),
    **affine(f"{LAYER}.mlp.fc1", "layers.{}.up"),
    **affine(f"{LAYER}.mlp.fc2", "layers.{}.down"),
}
"""Names of the layers' tensors, which the text encoders share."""
_SHARED = {
    **LAYERS,
    "embeddings.patch_embedding.weight": "patch.weight",
    "embeddings.position_embedding.weight": "position_table",
    **affine("post_layernorm", "final_norm"),
}
_CLIP = {
    **_SHARED,
    "embeddings.class_embedding": "token_table",
    **affine("pre_layrnorm", "norm"),
}
_SIGLIP = {
    **_SHARED,
    "embeddings.patch_embedding.bias": "patch.bias",
    "head.probe": "pool.probe",
    "head.attention.in_proj_weight": "pool.query|key|value.weight",
    "head.attention.in_proj_bias": "pool.query|key|value.bias",
    **affine("head.attention.out_proj", "pool.output"),
    **affine("head.layernorm", "pool.norm"),
    **affine("head.mlp.fc1", "pool.up"),
    **affine("head.mlp.fc2", "pool.down"),
}
_SIGLIP_TOKENS = {
    **_SHARED,
    "embeddings.patch_embedding.bias": "patch.bias",
}
_UNUSED_BY_TOKENS = ("embeddings.position_ids", "head.*")
_UNUSED = (
    "embeddings.position_ids",
    "text_model.*",
    "text_projection.weight",
    "visual_projection.weight",
    "logit_scale",
    "logit_bias",
)
CHANNELS = 3
_GELU = "gelu_pytorch_tanh"


def clip(options: JsonConfig, projection: Projection) -> ImageSpec:
    """Build the spec from CLIP's vision_config: the last state of a class token is projected."""
    spec = _spec(options, _CLIP, class_tokens=1, patch=32, activation="quick_gelu", eps=1e-5)
    return replace(spec, projection=projection)


def siglip(options: JsonConfig) -> ImageSpec:
    """Build the spec from SigLIP's vision_config: patches are pooled by attention."""
    options.require("vision_use_head", True)
    return _spec(options, _SIGLIP)


def siglip_tokens(  # noqa: PLR0913 - all but one by name
    options: JsonConfig,
    *,
    merge: int,
    width: int,
    token_id: int,
    connector: dict[str, str],
    prefixes: tuple[str, ...],
    unused: tuple[str, ...],
) -> ImageSpec:
    """Build the spec from SigLIP's vision_config: blocks of patches become tokens of a text.

    merge, token_id: see ImageSpec. width: of the text encoder's states. connector: name of the
    projection to it -> connector; or of a norm and two layers -> connector.norm, .up and .down.
    prefixes, unused: see ModelSpec. Raises ModelError for patches that do not fill whole
    blocks.
    """
    options.get("vision_use_head", True)  # the head pools, so nothing reads it
    spec = _spec(options, {**_SIGLIP_TOKENS, **connector})
    if spec.grid % merge:
        raise options.unsupported("image_size", spec.image_size, f"whole blocks of {merge} patches")
    joined = spec.encoder.config.hidden_size * merge**2
    connected = {
        **affine_shapes("connector", (width, joined)),
        **affine_shapes("connector.norm", (joined,)),
        **affine_shapes("connector.up", (width, joined)),
        **affine_shapes("connector.down", (width, width)),
    }
    encoder = replace(
        spec.encoder,
        unused=(*_UNUSED_BY_TOKENS, *unused),
        prefixes=prefixes,
        shapes={**spec.encoder.shapes, **connected},
    )
    return replace(spec, encoder=encoder, merge=merge, token_id=token_id)


def siglip2(options: JsonConfig) -> ImageSpec:
    """Build the spec from SigLIP 2's vision_config: images of any proportions (NaFlex)."""
    options.require("vision_use_head", True)
    options.require("num_channels", CHANNELS)
    side, patches = options.get("patch_size", 16), options.get("num_patches", 256)
    grid = math.isqrt(patches)
    if grid**2 != patches:
        raise options.unsupported("num_patches", patches, "the square of a whole number")
    config = replace(_layers(options, grid), input_positions=Scheme())
    encoder = ModelSpec(
        config=config,
        tensors={**_SIGLIP, "embeddings.position_embedding.weight": "patch.positions"},
        unused=_UNUSED,
        prefixes=("vision_model.",),
        shapes={
            **_shapes(config, CHANNELS * side**2),
            "patch.positions": (patches, config.hidden_size),
        },
    )
    return ImageSpec(encoder=encoder, image_size=grid * side, patch_size=side, positions=grid)


def _layers(
    options: JsonConfig,
    grid: int,
    *,
    class_tokens: int = 0,
    activation: str = _GELU,
    eps: float = 1e-6,
) -> EncoderConfig:
    # The defaults fit the smallest published models.
    return plain_config(
        vocab_size=class_tokens,
        hidden_size=options.get("hidden_size", 768),
        num_layers=options.get("num_hidden_layers", 12),
        num_heads=options.get("num_attention_heads", 12),
        intermediate_size=options.get("intermediate_size", 3072),
        max_positions=grid**2 + class_tokens,
        activation=options.choice("hidden_act", ACTIVATIONS, activation),
        norm_eps=options.get("layer_norm_eps", eps),
        input_positions=Learned(),
        arrangement="pre",
    )


def _spec(
    options: JsonConfig, tensors: dict[str, str], *, patch: int = 16, **layers: Any
) -> ImageSpec:
    options.require("num_channels", CHANNELS)
    size, side = options.get("image_size", 224), options.get("patch_size", patch)
    config = _layers(options, size // side, **layers)
    return of_squares(config, tensors, size, side, unused=_UNUSED, prefixes=("vision_model.",))


def of_squares(
    config: EncoderConfig,
    tensors: Mapping[str, str],
    size: int,
    side: int,
    **names: Any,
) -> ImageSpec:
    """Build the spec of an encoder of square images.

    size, side: pixels of the side of an image, and of a patch. names: unused and prefixes, see
    ModelSpec.
    """
    of_patches = _shapes(config, CHANNELS * side**2)
    encoder = ModelSpec(config=config, tensors=tensors, shapes=of_patches, **names)
    return ImageSpec(encoder=encoder, image_size=size, patch_size=side)


def _shapes(config: EncoderConfig, pixels: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the patch projection and of the head that pools by attention.

    pixels: numbers of a patch.
    """
    width, inner = config.hidden_size, config.feed_forward.inner
    matrices = {
        "patch": (width, pixels),
        "pool.gate": (inner, width),
        "pool.up": (inner, width),
        "pool.down": (width, inner),
        **{f"pool.{name}": (width, width) for name in ("query", "key", "value", "output")},
    }
    biases = {f"{name}.bias": shape[:1] for name, shape in matrices.items()}
    weights = {f"{name}.weight": shape for name, shape in matrices.items()}
    return {**weights, **biases, "pool.probe": (1, width)}
