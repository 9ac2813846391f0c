"""CLIP, which embeds texts and images in one space (Radford et al. 2021, arXiv 2103.00020)."""

from dataclasses import replace

from embedwell_models.config.activations import ACTIVATIONS
from embedwell_models.config.checkpoint_spec import LARGEST, CheckpointSpec, Projection, affine
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import vision
from embedwell_models.positions.schemes import Learned

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


_WRONG_END = 2  # in older files, which differs from the id that their tokenizers append


def text_only(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of a text encoder without image encoder, with its projection if it has one."""
    spec = _encoder(options)
    if "CLIPTextModelWithProjection" not in options.get("architectures", ()):
        return spec
    return replace(spec, projection=_projection(options, options, always=False))


def text_and_images(options: JsonConfig) -> CheckpointSpec:
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
        end=LARGEST if end == _WRONG_END else end,
        always=always,
    )


def _encoder(options: JsonConfig) -> CheckpointSpec:
    # The defaults are those of the smallest published model.
    config = EncoderConfig(
        family="clip",
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
    return CheckpointSpec(config=config, tensors=TENSORS, unused=UNUSED, prefixes=("text_model.",))
