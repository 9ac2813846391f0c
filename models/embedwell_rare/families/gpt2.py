"""GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners")."""

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families.decoder import is_causal
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import decoder
from embedwell_models.positions.schemes import Learned

TENSORS = {
    "wte.weight": "token_table",
    "wpe.weight": "position_table",
    **affine("h.{}.ln_1", "layers.{}.attention_norm"),
    **affine("h.{}.attn.c_attn", "layers.{}.query|key|value"),
    **affine("h.{}.attn.c_proj", "layers.{}.output"),
    **affine("h.{}.ln_2", "layers.{}.ffn_norm"),
    **affine("h.{}.mlp.c_fc", "layers.{}.up"),
    **affine("h.{}.mlp.c_proj", "layers.{}.down"),
    **affine("ln_f", "final_norm"),
}
# Stored as (in, out), because they are Conv1D modules in transformers.
_TRANSPOSED = tuple(f"{part}.weight" for part in ("query", "key", "value", "output", "up", "down"))


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a GPT-2."""
    options.require("scale_attn_by_inverse_layer_idx", False)
    options.require("add_cross_attention", False)
    width = options.first_of("n_embd", "hidden_size")
    scaled = options.get("scale_attn_weights", True)
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=options.first_of("n_layer", "num_hidden_layers"),
        num_heads=options.first_of("n_head", "num_attention_heads"),
        intermediate_size=options.get("n_inner", 4 * width),
        max_positions=options.first_of("n_positions", "max_position_embeddings"),
        activation=options.choice("activation_function", ACTIVATIONS, "gelu_new"),
        norm_eps=options.get("layer_norm_epsilon", 1e-5),
        input_positions=Learned(),
        arrangement="pre",
        causal=is_causal(options, "GPT2"),
        scale=0.0 if scaled else 1.0,
    )
    return ModelSpec(
        config=config,
        tensors=TENSORS,
        unused=("lm_head.weight", "score.weight", "h.*.attn.bias", "h.*.attn.masked_bias"),
        prefixes=("transformer.",),
        transposed=_TRANSPOSED,
    )


FAMILIES = (
    Family(
        model_types=("gpt2",),
        read=read,
        classification_head=decoder,
        tokenizer_override="prefix_space",
        row=DocsRow("GPT-2", positions="learned", layers="causal"),
    ),
)
