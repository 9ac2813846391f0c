"""BLOOM (Le Scao et al. 2022, arXiv 2211.05100)."""

from models.config.blueprint import Blueprint, affine
from models.config.encoder_config import EncoderConfig
from models.config.json_config import JsonConfig
from models.positions.schemes import Alibi

TRAINED = 2048  # tokens of the longest text of the training, which few configs tell

TENSORS = {
    "word_embeddings.weight": "token_table",
    **affine("word_embeddings_layernorm", "norm"),
    **affine("h.{}.input_layernorm", "layers.{}.attention_norm"),
    **affine("h.{}.self_attention.query_key_value", "layers.{}.query|key|value"),
    **affine("h.{}.self_attention.dense", "layers.{}.output"),
    **affine("h.{}.post_attention_layernorm", "layers.{}.ffn_norm"),
    **affine("h.{}.mlp.dense_h_to_4h", "layers.{}.up"),
    **affine("h.{}.mlp.dense_4h_to_h", "layers.{}.down"),
    **affine("ln_f", "final_norm"),
}


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a BLOOM."""
    raw.only("apply_residual_connection_post_layernorm", False)
    raw.only("is_causal", True)  # its penalty would favour what comes after
    width = raw.either("hidden_size", "n_embed")
    config = EncoderConfig(
        family="bloom",
        vocab_size=raw["vocab_size"],
        hidden_size=width,
        num_layers=raw.either("n_layer", "num_hidden_layers"),
        num_heads=raw.either("n_head", "num_attention_heads"),
        intermediate_size=4 * width,
        max_positions=raw.get("seq_length", TRAINED),
        activation="gelu_tanh",
        norm_eps=raw.get("layer_norm_epsilon", 1e-5),
        positions=Alibi(),
        arrangement="pre",
        causal=True,
    )
    return Blueprint(
        config=config,
        tensors=TENSORS,
        unused=("lm_head.weight", "score.weight"),
        prefixes=("transformer.",),
        by_head=True,
    )
