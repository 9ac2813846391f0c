"""GPT-NeoX (Black et al. 2022, arXiv 2204.06745) and Pythia, which uses the same names."""

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine, linear
from embedwell_models.families.decoder import is_causal
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import decoder
from embedwell_models.families.rope import rotary


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a GPT-NeoX."""
    heads, width = options["num_attention_heads"], options["hidden_size"]
    head_size = options.get("head_dim", width // heads)  # of the rotation alone, in transformers
    base, share = options.get("rotary_emb_base", 10_000.0), options.get("rotary_pct", 0.25)
    # Of the keys outside the settings of scaling, transformers reads the older names only.
    positions = rotary(options.without("rope_theta"), head_size, base=base, share=share)
    if "head_dim" in options and positions.dim > width // heads:
        raise options.unsupported("head_dim", head_size, f"{width // heads}, of hidden_size")
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=options["num_hidden_layers"],
        num_heads=heads,
        intermediate_size=options["intermediate_size"],
        max_positions=options["max_position_embeddings"],
        activation=options.choice("hidden_act", ACTIVATIONS, "gelu"),
        norm_eps=options.get("layer_norm_eps", 1e-5),
        positions=positions,
        arrangement="parallel" if options.get("use_parallel_residual", True) else "pre",
        causal=is_causal(options, "GPTNeoX"),
    )
    return ModelSpec(
        config=config,
        tensors=_tensors(options.get("attention_bias", True)),
        unused=(
            "embed_out.weight",
            "score.weight",
            "layers.*.attention.bias",
            "layers.*.attention.masked_bias",
            "layers.*.attention.rotary_emb.inv_freq",
        ),
        prefixes=("gpt_neox.",),
        by_head=True,
    )


def _tensors(biased: bool) -> dict[str, str]:
    return {
        "embed_in.weight": "token_table",
        **affine("layers.{}.input_layernorm", "layers.{}.attention_norm"),
        **linear("layers.{}.attention.query_key_value", "layers.{}.query|key|value", biased),
        **linear("layers.{}.attention.dense", "layers.{}.output", biased),
        **affine("layers.{}.post_attention_layernorm", "layers.{}.ffn_norm"),
        **affine("layers.{}.mlp.dense_h_to_4h", "layers.{}.up"),
        **affine("layers.{}.mlp.dense_4h_to_h", "layers.{}.down"),
        **affine("final_layer_norm", "final_norm"),
    }


FAMILIES = (
    Family(
        model_types=("gpt_neox",),
        read=read,
        classification_head=decoder,
        row=DocsRow("GPT-NeoX", "Pythia", positions="rotary", layers="causal, parallel blocks"),
    ),
)
