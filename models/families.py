"""Checkpoint families as data: where their files keep what the encoder needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Family:
    """How one checkpoint layout maps to ours.

    fields: EncoderConfig field -> key of config.json.
    allowed: key of config.json -> the values that are implemented, the default first.
    tensors: name in the file ('{}' is the layer number) -> our name.
    optional: names in the file that inference does not need ('*' matches the rest of the name).
    prefix: what a checkpoint saved with a task head puts before every name.
    """

    fields: Mapping[str, str]
    allowed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    tensors: Mapping[str, str]
    optional: tuple[str, ...] = ()
    prefix: str = ""


def _affine(theirs: str, ours: str) -> dict[str, str]:
    return {f"{theirs}.{part}": f"{ours}.{part}" for part in ("weight", "bias")}


BERT = Family(
    fields={
        "vocab_size": "vocab_size",
        "hidden_size": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "intermediate_size": "intermediate_size",
        "max_positions": "max_position_embeddings",
        "activation": "hidden_act",
        "norm_eps": "layer_norm_eps",
    },
    allowed={
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
        "hidden_act": ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu"),
    },
    tensors={
        "embeddings.word_embeddings.weight": "token_table",
        "embeddings.position_embeddings.weight": "position_table",
        "embeddings.token_type_embeddings.weight": "segment_table",
        **_affine("embeddings.LayerNorm", "norm"),
        **_affine("encoder.layer.{}.attention.self.query", "layers.{}.query"),
        **_affine("encoder.layer.{}.attention.self.key", "layers.{}.key"),
        **_affine("encoder.layer.{}.attention.self.value", "layers.{}.value"),
        **_affine("encoder.layer.{}.attention.output.dense", "layers.{}.output"),
        **_affine("encoder.layer.{}.attention.output.LayerNorm", "layers.{}.attention_norm"),
        **_affine("encoder.layer.{}.intermediate.dense", "layers.{}.up"),
        **_affine("encoder.layer.{}.output.dense", "layers.{}.down"),
        **_affine("encoder.layer.{}.output.LayerNorm", "layers.{}.ffn_norm"),
    },
    optional=("embeddings.position_ids", "pooler.*", "cls.*"),
    prefix="bert.",
)

FAMILIES: Mapping[str, Family] = {"bert": BERT}
