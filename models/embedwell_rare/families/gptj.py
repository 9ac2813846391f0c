"""GPT-J (Wang and Komatsuzaki 2021)."""

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine, linear
from embedwell_models.families.decoder import is_causal
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import decoder
from embedwell_models.positions.schemes import Rotary

TENSORS = {
    "wte.weight": "token_table",
    **affine("h.{}.ln_1", "layers.{}.attention_norm"),
    **linear("h.{}.attn.q_proj", "layers.{}.query"),
    **linear("h.{}.attn.k_proj", "layers.{}.key"),
    **linear("h.{}.attn.v_proj", "layers.{}.value"),
    **linear("h.{}.attn.out_proj", "layers.{}.output"),
    **affine("h.{}.mlp.fc_in", "layers.{}.up"),
    **affine("h.{}.mlp.fc_out", "layers.{}.down"),
    **affine("ln_f", "final_norm"),
}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a GPT-J."""
    width, heads = (
        options.first_of("n_embd", "hidden_size"),
        options.first_of("n_head", "num_attention_heads"),
    )
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=options.first_of("n_layer", "num_hidden_layers"),
        num_heads=heads,
        intermediate_size=options.get("n_inner", 4 * width),
        max_positions=options.first_of("n_positions", "max_position_embeddings"),
        activation=options.choice("activation_function", ACTIVATIONS, "gelu_new"),
        norm_eps=options.get("layer_norm_epsilon", 1e-5),
        positions=Rotary(dim=options.get("rotary_dim", 64), interleaved=True),
        arrangement="parallel_one_norm",
        causal=is_causal(options, "GPTJ"),
    )
    return ModelSpec(
        config=config,
        tensors=TENSORS,
        unused=("lm_head.*", "score.weight", "h.*.attn.bias", "h.*.attn.masked_bias"),
        prefixes=("transformer.",),
    )


FAMILIES = (
    Family(
        model_types=("gptj",),
        read=read,
        classification_head=decoder,
        tokenizer_override="prefix_space",
        row=DocsRow("GPT-J", "SGPT", positions="rotary", layers="causal, parallel blocks"),
    ),
)
