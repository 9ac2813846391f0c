"""BERT (Devlin et al. 2018, arXiv 1810.04805)."""

from typing import Any

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import heads
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import two_layers
from embedwell_models.positions.schemes import Learned

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


def config(options: JsonConfig, **overrides: Any) -> EncoderConfig:
    """Build the configuration of a BERT. overrides: fields that differ in a related family."""
    options.require("is_decoder", False)
    fields: dict[str, Any] = {
        "vocab_size": options["vocab_size"],
        "hidden_size": options["hidden_size"],
        "num_layers": options["num_hidden_layers"],
        "num_heads": options["num_attention_heads"],
        "intermediate_size": options["intermediate_size"],
        "max_positions": options["max_position_embeddings"],
        "activation": options.choice("hidden_act", ACTIVATIONS, "gelu"),
        "norm_eps": options.get("layer_norm_eps", 1e-12),
        "input_positions": Learned(),
        "segments": True,
    }
    return plain_config(**{**fields, **overrides})


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a BERT."""
    options.require("position_embedding_type", "absolute")
    return ModelSpec(config=config(options), tensors=TENSORS, unused=UNUSED, prefixes=("bert.",))


FAMILIES = (
    Family(
        model_types=("bert",),
        read=read,
        classification_head=two_layers("bert.pooler.dense", "classifier"),
        masked_lm_head=heads.BERT_MASKED_LM,
        tokenizer_override="normalizer",
        row=DocsRow(
            "BERT", "MiniLM, BGE, E5, GTE v1, Arctic", positions="learned", layers="post-norm"
        ),
    ),
)
