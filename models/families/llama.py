"""Llama (Touvron et al. 2023, arXiv 2302.13971), Mistral (Jiang et al. 2023, 2310.06825), kin."""

from typing import Any

from models.config.activations import ACTIVATIONS
from models.config.blueprint import Blueprint, linear
from models.config.encoder_config import EncoderConfig
from models.config.json_config import JsonConfig
from models.families.decoder import is_causal, reaches, sliding_window
from models.families.rope import rotary

_MINISTRAL3_ROPE = {
    **{"rope_type": "yarn", "rope_theta": 1_000_000.0, "factor": 16.0},
    **{"original_max_position_embeddings": 16_384, "mscale": 1.0, "mscale_all_dim": 1.0},
}
UNUSED = ("lm_head.weight", "score.weight", "layers.*.self_attn.rotary_emb.inv_freq")


def tensors(biased: bool, output_biased: bool, ffn_biased: bool) -> dict[str, str]:
    """The names of a Llama; whether queries, keys and values, the output and the rest have bias."""
    attention, ffn = "layers.{}.self_attn", "layers.{}.mlp"
    return {
        "embed_tokens.weight": "token_table",
        "norm.weight": "final_norm.weight",
        "layers.{}.input_layernorm.weight": "layers.{}.attention_norm.weight",
        "layers.{}.post_attention_layernorm.weight": "layers.{}.ffn_norm.weight",
        **linear(f"{attention}.q_proj", "layers.{}.query", biased),
        **linear(f"{attention}.k_proj", "layers.{}.key", biased),
        **linear(f"{attention}.v_proj", "layers.{}.value", biased),
        **linear(f"{attention}.o_proj", "layers.{}.output", output_biased),
        **linear(f"{ffn}.gate_proj", "layers.{}.gate", ffn_biased),
        **linear(f"{ffn}.up_proj", "layers.{}.up", ffn_biased),
        **linear(f"{ffn}.down_proj", "layers.{}.down", ffn_biased),
    }


def config(raw: JsonConfig, *, head_size: int = 0, **different: Any) -> EncoderConfig:
    """The shape of a Llama, with what is different in a relative of it.

    head_size: where config.json does not tell; 0 for an equal share of the width.
    """
    if different["causal"]:  # the key asks for the opposite; transformers ignores it
        raw.only("use_bidirectional_attention", False)
    heads, width = raw["num_attention_heads"], raw["hidden_size"]
    head_size = raw.get("head_dim", head_size or width // heads)
    positions = different.get("positions") or rotary(raw, head_size)
    fields: dict[str, Any] = {
        "family": raw["model_type"],
        "vocab_size": raw["vocab_size"],
        "hidden_size": width,
        "num_layers": raw["num_hidden_layers"],
        "num_heads": heads,
        "num_kv_heads": raw.get("num_key_value_heads", heads),
        "head_size": head_size,
        "intermediate_size": raw["intermediate_size"],
        "max_positions": raw["max_position_embeddings"],
        "activation": raw.among("hidden_act", ACTIVATIONS, "silu"),
        "norm": "rms",
        "norm_eps": raw.get("rms_norm_eps", 1e-6),
        "arrangement": "pre",
        "gated": True,
        "positions": positions,
    }
    return EncoderConfig(**{**fields, **different})


def blueprint(config: EncoderConfig, tensors: dict[str, str], norm_shift: float = 0) -> Blueprint:
    """What all that have Llama's names have in common."""
    return Blueprint(
        config=config,
        tensors=tensors,
        unused=UNUSED,
        prefixes=("model.",),
        norm_shift=norm_shift,
    )


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a Llama."""
    raw.only("sliding_window", None)
    biased = raw.get("attention_bias", False)
    return blueprint(
        config(raw, causal=is_causal(raw, "Llama")),
        tensors(biased, biased, raw.get("mlp_bias", False)),
    )


def mistral(raw: JsonConfig) -> Blueprint:
    """The blueprint of a Mistral: every layer has the window."""
    raw.only("layer_types", None)
    causal = is_causal(raw, "Mistral")
    seen = reaches(raw, causal, sliding_window(raw), lambda layer: True)
    return blueprint(config(raw, causal=causal, reaches=seen), tensors(False, False, False))


def bidirectional(raw: JsonConfig) -> Blueprint:
    """The blueprint of NVIDIA's Llama, in which each token sees all others and the mean counts."""
    raw.only("is_causal", False)
    raw.only("pooling", "avg")
    biased = raw.get("attention_bias", False)
    return blueprint(config(raw, causal=False), tensors(biased, biased, raw.get("mlp_bias", False)))


def ministral3(raw: JsonConfig) -> Blueprint:
    """The blueprint of a Ministral 3, for texts up to the length of its first training.

    Beyond that the model scales a query by its position, which is not implemented.
    """
    if not raw.get("rope_parameters", {}) and not raw.get("rope_scaling", {}):
        raw = raw.without("rope_parameters").over({"rope_parameters": _MINISTRAL3_ROPE})
    rope = raw.nested("rope_scaling" if raw.get("rope_scaling", {}) else "rope_parameters")
    causal = is_causal(raw, "Ministral3")
    seen = reaches(raw, causal, raw.get("sliding_window"), lambda layer: True)
    made = config(
        raw,
        head_size=128,
        causal=causal,
        reaches=seen,
        norm_eps=raw.get("rms_norm_eps", 1e-5),
        max_positions=rope.get("original_max_position_embeddings", raw["max_position_embeddings"]),
        bounded=True,
    )
    return blueprint(made, tensors(False, False, False))
