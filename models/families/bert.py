"""BERT (Devlin et al. 2018, arXiv 1810.04805)."""

from typing import Any

from models.config.activations import ACTIVATIONS
from models.config.blueprint import Blueprint, affine
from models.config.encoder_config import EncoderConfig
from models.config.json_config import JsonConfig
from models.positions.schemes import Learned

TENSORS = {
    "embeddings.word_embeddings.weight": "token_table",
    "embeddings.position_embeddings.weight": "position_table",
    "embeddings.token_type_embeddings.weight": "segment_table",
    **affine("embeddings.LayerNorm", "norm"),
    **affine("encoder.layer.{}.attention.self.query", "layers.{}.query"),
    **affine("encoder.layer.{}.attention.self.key", "layers.{}.key"),
    **affine("encoder.layer.{}.attention.self.value", "layers.{}.value"),
    **affine("encoder.layer.{}.attention.output.dense", "layers.{}.output"),
    **affine("encoder.layer.{}.attention.output.LayerNorm", "layers.{}.attention_norm"),
    **affine("encoder.layer.{}.intermediate.dense", "layers.{}.up"),
    **affine("encoder.layer.{}.output.dense", "layers.{}.down"),
    **affine("encoder.layer.{}.output.LayerNorm", "layers.{}.ffn_norm"),
}
UNUSED = ("embeddings.position_ids", "pooler.*", "cls.*", "classifier.*", "qa_outputs.*")


def config(raw: JsonConfig, **different: Any) -> EncoderConfig:
    """The shape of a BERT, with what is different in a relative of it."""
    raw.only("is_decoder", False)
    fields: dict[str, Any] = {
        "family": raw["model_type"],
        "vocab_size": raw["vocab_size"],
        "hidden_size": raw["hidden_size"],
        "num_layers": raw["num_hidden_layers"],
        "num_heads": raw["num_attention_heads"],
        "intermediate_size": raw["intermediate_size"],
        "max_positions": raw["max_position_embeddings"],
        "activation": raw.among("hidden_act", ACTIVATIONS, "gelu"),
        "norm_eps": raw.get("layer_norm_eps", 1e-12),
        "table": Learned(),
        "segments": True,
    }
    return EncoderConfig(**{**fields, **different})


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a BERT."""
    raw.only("position_embedding_type", "absolute")
    return Blueprint(config=config(raw), tensors=TENSORS, unused=UNUSED, prefixes=("bert.",))
