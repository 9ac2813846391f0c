"""GPT-Neo (Black et al. 2021): a GPT-2 in which every second layer has a window."""

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine, linear
from embedwell_models.families.decoder import is_causal
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import decoder
from embedwell_models.positions.schemes import Learned

_ATTENTION = "h.{}.attn.attention"
_DEFAULT = [[["global", "local"], 12]]  # alternating kinds of layers, and the number of repetitions
TENSORS = {
    "wte.weight": "token_table",
    "wpe.weight": "position_table",
    **affine("h.{}.ln_1", "layers.{}.attention_norm"),
    **linear(f"{_ATTENTION}.q_proj", "layers.{}.query"),
    **linear(f"{_ATTENTION}.k_proj", "layers.{}.key"),
    **linear(f"{_ATTENTION}.v_proj", "layers.{}.value"),
    **affine(f"{_ATTENTION}.out_proj", "layers.{}.output"),
    **affine("h.{}.ln_2", "layers.{}.ffn_norm"),
    **affine("h.{}.mlp.c_fc", "layers.{}.up"),
    **affine("h.{}.mlp.c_proj", "layers.{}.down"),
    **affine("ln_f", "final_norm"),
}
UNUSED = (
    *("lm_head.weight", "score.weight"),
    *("h.*.attn.attention.bias", "h.*.attn.attention.masked_bias"),
)


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a GPT-Neo."""
    options.require("is_causal", True)  # GPT-Neo's layers have causal masks
    width, layers = options["hidden_size"], options.first_of("num_layers", "num_hidden_layers")
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=layers,
        num_heads=options.first_of("num_heads", "num_attention_heads"),
        intermediate_size=options.get("intermediate_size", 4 * width),
        max_positions=options["max_position_embeddings"],
        activation=options.choice("activation_function", ACTIVATIONS, "gelu_new"),
        norm_eps=options.get("layer_norm_epsilon", 1e-5),
        input_positions=Learned(),
        arrangement="pre",
        causal=is_causal(options, "GPTNeo"),
        windows=_windows(options, layers),
        scale=1.0,
    )
    return ModelSpec(
        config=config,
        tensors=TENSORS,
        unused=UNUSED,
        prefixes=("transformer.",),
    )


def _windows(options: JsonConfig, layers: int) -> tuple[int | None, ...]:
    stated = options.get("attention_types", _DEFAULT)
    kinds = [kind for pattern, times in stated for kind in pattern * times]
    if len(kinds) != layers or not set(kinds) <= {"global", "local"}:
        raise options.unsupported("attention_types", stated, f"{layers} of 'global' and 'local'")
    options.require("attention_layers", kinds)  # the same once more, which transformers follows
    # The window counts the token itself.
    visible = options.get("window_size", 256) - 1
    return tuple(visible if kind == "local" else None for kind in kinds)


FAMILIES = (
    Family(
        model_types=("gpt_neo",),
        read=read,
        classification_head=decoder,
        tokenizer_override="prefix_space",
        row=DocsRow(
            "GPT-Neo", "SGPT", positions="learned", layers="causal, local attention in some layers"
        ),
    ),
)
