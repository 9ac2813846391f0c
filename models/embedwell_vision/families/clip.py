"""CLIP and MetaCLIP 2, which embed texts and images in one space.

Radford et al. 2021 (arXiv 2103.00020), Chuang et al. 2025 (arXiv 2507.22062).
"""

from dataclasses import replace

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import LARGEST, ModelSpec, Projection
from embedwell_models.config.tensor_names import affine
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.positions.schemes import Learned
from embedwell_vision.families import vision

_PROJECTION = "text_projection.weight"
TENSORS = {
    "embeddings.token_embedding.weight": "token_table",
    "embeddings.position_embedding.weight": "position_table",
    **vision.LAYERS,
    **affine("final_layer_norm", "final_norm"),
}
UNUSED = (
    "embeddings.position_ids",
    _PROJECTION,
    "vision_model.*",
    "visual_projection.weight",
    "logit_scale",
)


_METACLIP2 = "metaclip_2"
_WRONG_END = 2  # in older files of CLIP, which differs from the id that their tokenizers append


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts and images, or of its text encoder alone."""
    is_text_encoder = options["model_type"] == "clip_text_model"
    return _text_only(options) if is_text_encoder else _text_and_images(options)


def _text_only(options: JsonConfig) -> ModelSpec:
    """Build the spec of a text encoder without image encoder, with its projection if it has one."""
    spec = _encoder(options)
    if "CLIPTextModelWithProjection" not in options.get("architectures", ()):
        return spec
    return replace(spec, projection=_projection(options, options, always=False))


def _text_and_images(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts and images."""
    text, images = (_older_first(options, f"{kind}_config") for kind in ("text", "vision"))
    projection = _projection(options, text, always=True)
    visual = Projection(tensor="visual_projection.weight", width=projection.width)
    return replace(_encoder(text), projection=projection, images=vision.clip(images, visual))


def _older_first(options: JsonConfig, key: str) -> JsonConfig:
    older = options.get(f"{key}_dict")  # takes precedence
    return options.nested(f"{key}_dict" if older else key)


def _projection(options: JsonConfig, text: JsonConfig, always: bool) -> Projection:
    end = text.get("eos_token_id", 49_407)
    return Projection(
        tensor=_PROJECTION,
        width=options.get("projection_dim", 512),
        end=LARGEST if end == _WRONG_END and options["model_type"] != _METACLIP2 else end,
        always=always,
    )


def _encoder(options: JsonConfig) -> ModelSpec:
    options.require("is_causal", True)
    # The defaults fit the smallest published model.
    config = plain_config(
        vocab_size=options.get("vocab_size", 49_408),
        hidden_size=options.get("hidden_size", 512),
        num_layers=options.get("num_hidden_layers", 12),
        num_heads=options.get("num_attention_heads", 8),
        intermediate_size=options.get("intermediate_size", 2048),
        max_positions=options.get("max_position_embeddings", 77),
        activation=options.choice("hidden_act", ACTIVATIONS, "quick_gelu"),
        norm_eps=options.get("layer_norm_eps", 1e-5),
        input_positions=Learned(),
        arrangement="pre",
        causal=True,
    )
    return ModelSpec(config=config, tensors=TENSORS, unused=UNUSED, prefixes=("text_model.",))


FAMILIES = (
    Family(
        model_types=("clip", "clip_text_model", _METACLIP2),
        name="clip",
        read=read,
        tokenizer_override="nothing",
        row=DocsRow(
            "CLIP, MetaCLIP 2, [texts and images](image-inputs.md)",
            "clip-ViT-B-32, metaclip-2-worldwide-huge-quickgelu",
            positions="learned",
            layers="pre-norm; texts causal",
        ),
    ),
)
