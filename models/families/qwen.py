"""Qwen2 (Yang et al. 2024, arXiv 2407.10671) and Qwen3 (Yang et al. 2025, arXiv 2505.09388)."""

from models.config.checkpoint_spec import CheckpointSpec, linear
from models.config.json_config import JsonConfig
from models.families import llama
from models.families.decoder import is_causal, layer_windows, sliding_window


def read(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of a Qwen2: a Llama whose queries, keys and values have biases."""
    causal = is_causal(options, "Qwen2")
    config = llama.config(options, causal=causal, windows=_windows(options, causal))
    return llama.spec(config, llama.tensors(True, False, False))


def qwen3(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of a Qwen3: each head of queries and keys is normalised."""
    causal, biased = is_causal(options, "Qwen3"), options.get("attention_bias", False)
    config = llama.config(options, head_size=128, causal=causal, windows=_windows(options, causal))
    return llama.spec(config, llama.tensors(biased, biased, False) | NORMS)


NORMS = {
    **linear("layers.{}.self_attn.q_norm", "layers.{}.query_norm"),
    **linear("layers.{}.self_attn.k_norm", "layers.{}.key_norm"),
}


def _windows(options: JsonConfig, causal: bool) -> tuple[int | None, ...]:
    window = sliding_window(options) if options.get("use_sliding_window", False) else None
    first = options.get("max_window_layers", 28)
    return layer_windows(options, causal, window, lambda layer: layer >= first)
