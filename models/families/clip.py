"""The text encoder of CLIP (Radford et al. 2021, arXiv 2103.00020)."""

from dataclasses import replace

from models.config.activations import ACTIVATIONS
from models.config.blueprint import LARGEST, Blueprint, Projection, affine
from models.config.encoder_config import EncoderConfig
from models.config.json_config import JsonConfig
from models.positions.schemes import Learned

_LAYER = "encoder.layers.{}"
_PROJECTION = "text_projection.weight"
TENSORS = {
    "embeddings.token_embedding.weight": "token_table",
    "embeddings.position_embedding.weight": "position_table",
    **affine(f"{_LAYER}.self_attn.q_proj", "layers.{}.query"),
    **affine(f"{_LAYER}.self_attn.k_proj", "layers.{}.key"),
    **affine(f"{_LAYER}.self_attn.v_proj", "layers.{}.value"),
    **affine(f"{_LAYER}.self_attn.out_proj", "layers.{}.output"),
    **affine(f"{_LAYER}.layer_norm1", "layers.{}.attention_norm"),
    **affine(f"{_LAYER}.layer_norm2", "layers.{}.ffn_norm"),
    **affine(f"{_LAYER}.mlp.fc1", "layers.{}.up"),
    **affine(f"{_LAYER}.mlp.fc2", "layers.{}.down"),
    **affine("final_layer_norm", "final_norm"),
}
UNUSED = (
    "embeddings.position_ids",
    _PROJECTION,
    "vision_model.*",
    "visual_projection.weight",
    "logit_scale",
)


_WRONG_END = 2  # of older files, which do not know the id that their tokenizers put at the end


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a text encoder by itself, or with its projection."""
    blueprint = _encoder(raw)
    if "CLIPTextModelWithProjection" not in raw.get("architectures", ()):
        return blueprint
    return replace(blueprint, projection=_projection(raw, raw, always=False))


def whole(raw: JsonConfig) -> Blueprint:
    """The blueprint of the text encoder of a model that has images, too."""
    older = raw.get("text_config_dict")  # where it is there, it is the one that counts
    text = raw.nested("text_config_dict" if older else "text_config")
    return replace(_encoder(text), projection=_projection(raw, text, always=True))


def _projection(raw: JsonConfig, text: JsonConfig, always: bool) -> Projection:
    end = text.get("eos_token_id", 49_407)
    return Projection(
        tensor=_PROJECTION,
        width=raw.get("projection_dim", 512),
        end=LARGEST if end == _WRONG_END else end,
        always=always,
    )


def _encoder(raw: JsonConfig) -> Blueprint:
    # What a file leaves out is as in the smallest of the published models.
    config = EncoderConfig(
        family="clip",
        vocab_size=raw.get("vocab_size", 49_408),
        hidden_size=raw.get("hidden_size", 512),
        num_layers=raw.get("num_hidden_layers", 12),
        num_heads=raw.get("num_attention_heads", 8),
        intermediate_size=raw.get("intermediate_size", 2048),
        max_positions=raw.get("max_position_embeddings", 77),
        activation=raw.among("hidden_act", ACTIVATIONS, "quick_gelu"),
        norm_eps=raw.get("layer_norm_eps", 1e-5),
        table=Learned(),
        arrangement="pre",
        causal=True,
    )
    return Blueprint(config=config, tensors=TENSORS, unused=UNUSED, prefixes=("text_model.",))
