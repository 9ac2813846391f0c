"""Llama (Touvron et al. 2023, arXiv 2302.13971) and what shares its names: Mistral."""

from typing import Any

from models.blueprint import Blueprint, Raw, linear
from models.config import EncoderConfig
from models.families.rope import longest, rotary


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


def config(raw: Raw, **different: Any) -> EncoderConfig:
    """The shape of a Llama, with what is different in a relative of it."""
    heads, width = raw["num_attention_heads"], raw["hidden_size"]
    head_size = raw.get("head_dim", width // heads)
    positions = rotary(raw, head_size)
    fields: dict[str, Any] = {
        "family": raw["model_type"],
        "vocab_size": raw["vocab_size"],
        "hidden_size": width,
        "num_layers": raw["num_hidden_layers"],
        "num_heads": heads,
        "num_kv_heads": raw.get("num_key_value_heads", heads),
        "head_size": head_size,
        "intermediate_size": raw["intermediate_size"],
        "max_positions": longest(raw, positions),
        "activation": raw.get("hidden_act", "silu"),
        "norm": "rms",
        "norm_eps": raw["rms_norm_eps"],
        "arrangement": "pre",
        "gated": True,
        "causal": True,
        "final_norm": True,
        "positions": positions,
    }
    return EncoderConfig(**{**fields, **different})


def read(raw: Raw) -> Blueprint:
    """The blueprint of a Llama or Mistral."""
    window, layers = raw.get("sliding_window"), raw["num_hidden_layers"]
    biased = raw.get("attention_bias", False)
    return Blueprint(
        config=config(raw, reaches=(window and window - 1,) * layers),
        tensors=tensors(biased, biased, raw.get("mlp_bias", False)),
        unused=("lm_head.weight", "layers.{}.self_attn.rotary_emb.inv_freq"),
        prefixes=("model.",),
    )
