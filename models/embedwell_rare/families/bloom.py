"""BLOOM (Le Scao et al. 2022, arXiv 2211.05100)."""

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import decoder
from embedwell_models.positions.schemes import Alibi

TRAINED = 2048  # tokens of the longest training text; few configs contain it

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


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a BLOOM."""
    options.require("apply_residual_connection_post_layernorm", False)
    if options.get("pretraining_tp", 1) > 1:  # transformers then leaves out biases
        options.require("slow_but_exact", False)
    options.require("is_causal", True)  # otherwise its ALiBi bias would favour later tokens
    width = options.first_of("hidden_size", "n_embed")
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=options.first_of("n_layer", "num_hidden_layers"),
        num_heads=options.first_of("n_head", "num_attention_heads"),
        intermediate_size=4 * width,
        max_positions=options.get("seq_length", TRAINED),
        activation="gelu_tanh",
        norm_eps=options.get("layer_norm_epsilon", 1e-5),
        positions=Alibi(),
        arrangement="pre",
        causal=True,
    )
    return ModelSpec(
        config=config,
        tensors=TENSORS,
        unused=("lm_head.weight", "score.weight"),
        prefixes=("transformer.",),
        by_head=True,
    )


FAMILIES = (
    Family(
        model_types=("bloom",),
        read=read,
        classification_head=decoder,
        row=DocsRow("BLOOM", "sgpt-bloom", positions="ALiBi", layers="causal"),
    ),
)
