"""Qwen2 (Yang et al. 2024, arXiv 2407.10671) and Qwen3 (Yang et al. 2025, arXiv 2505.09388)."""

from models.config.blueprint import Blueprint, linear
from models.config.json_config import JsonConfig
from models.families import llama
from models.families.decoder import is_causal, reaches, sliding_window


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a Qwen2: a Llama whose queries, keys and values have biases."""
    causal = is_causal(raw, "Qwen2")
    config = llama.config(raw, causal=causal, reaches=_reaches(raw, causal))
    return llama.blueprint(config, llama.tensors(True, False, False))


def qwen3(raw: JsonConfig) -> Blueprint:
    """The blueprint of a Qwen3: each head of queries and keys is normalised."""
    causal, biased = is_causal(raw, "Qwen3"), raw.get("attention_bias", False)
    config = llama.config(raw, head_size=128, causal=causal, reaches=_reaches(raw, causal))
    return llama.blueprint(config, llama.tensors(biased, biased, False) | NORMS)


NORMS = {
    **linear("layers.{}.self_attn.q_norm", "layers.{}.query_norm"),
    **linear("layers.{}.self_attn.k_norm", "layers.{}.key_norm"),
}


def _reaches(raw: JsonConfig, causal: bool) -> tuple[int | None, ...]:
    found = sliding_window(raw) if raw.get("use_sliding_window", False) else None
    first = raw.get("max_window_layers", 28)
    return reaches(raw, causal, found, lambda layer: layer >= first)
