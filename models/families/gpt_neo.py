"""GPT-Neo (Black et al. 2021): a GPT-2 in which every second layer sees only near tokens."""

from models.config.activations import ACTIVATIONS
from models.config.blueprint import Blueprint, affine, linear
from models.config.encoder_config import EncoderConfig
from models.config.json_config import JsonConfig
from models.families.decoder import is_causal
from models.positions.schemes import Learned

_ATTENTION = "h.{}.attn.attention"
_USUAL = [[["global", "local"], 12]]  # kinds of layers in turn, and how many times
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


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a GPT-Neo."""
    raw.only("is_causal", True)  # the masks of its layers are
    width, layers = raw["hidden_size"], raw.either("num_layers", "num_hidden_layers")
    config = EncoderConfig(
        family="gpt_neo",
        vocab_size=raw["vocab_size"],
        hidden_size=width,
        num_layers=layers,
        num_heads=raw.either("num_heads", "num_attention_heads"),
        intermediate_size=raw.get("intermediate_size", 4 * width),
        max_positions=raw["max_position_embeddings"],
        activation=raw.among("activation_function", ACTIVATIONS, "gelu_new"),
        norm_eps=raw.get("layer_norm_epsilon", 1e-5),
        table=Learned(),
        arrangement="pre",
        causal=is_causal(raw, "GPTNeo"),
        reaches=_reaches(raw, layers),
        scale=1.0,
    )
    return Blueprint(
        config=config,
        tensors=TENSORS,
        unused=UNUSED,
        prefixes=("transformer.",),
    )


def _reaches(raw: JsonConfig, layers: int) -> tuple[int | None, ...]:
    told = raw.get("attention_types", _USUAL)
    kinds = [kind for some, times in told for kind in some * times]
    if len(kinds) != layers or not set(kinds) <= {"global", "local"}:
        raise raw.refusal("attention_types", told, f"{layers} of 'global' and 'local'")
    # The window counts the token itself.
    near = raw.get("window_size", 256) - 1
    return tuple(near if kind == "local" else None for kind in kinds)
