"""Qwen2 (Yang et al. 2024, arXiv 2407.10671), Qwen3 (arXiv 2505.09388) and related models."""

from dataclasses import replace
from typing import Any

from embedwell_models.config.checkpoint_spec import CheckpointSpec, Projection, linear
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import llama
from embedwell_models.families.decoder import is_causal, layer_windows, sliding_window


def read(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of a Qwen2: a Llama whose queries, keys and values have biases."""
    causal = is_causal(options, "Qwen2")
    config = llama.config(options, causal=causal, windows=_windows(options, causal))
    return llama.spec(config, llama.tensors(True, False, False))


def qwen3(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of a Qwen3: each query head and key head is normalised."""
    code = str(options.get("auto_map", {}).get("AutoModel", ""))
    if code.rpartition(".")[2] == VOYAGE and options.get("use_bidirectional_attention", False):
        return _voyage(options)
    return _qwen3(options, is_causal(options, "Qwen3"))


def pplx(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of Perplexity's pplx-embed, a bidirectional Qwen3."""
    options.require("use_bidirectional_attention", True)
    return _qwen3(options, causal=False)


def _voyage(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of voyage-4-nano, with its token projection applied to the mean.

    The projection has no bias, so the result is the mean of the projected states.
    """
    spec = _qwen3(options, causal=False, family="voyage")
    projection = Projection(tensor="linear.weight", width=options["num_labels"], pooling="mean")
    return replace(spec, projection=projection, unused=(*spec.unused, projection.tensor))


def _qwen3(options: JsonConfig, causal: bool, **overrides: Any) -> CheckpointSpec:
    biased = options.get("attention_bias", False)
    config = llama.config(
        options, head_size=128, causal=causal, windows=_windows(options, causal), **overrides
    )
    return llama.spec(config, llama.tensors(biased, biased, False) | NORMS)


VOYAGE = "Qwen3BidirectionalModel"
NORMS = {
    **linear("layers.{}.self_attn.q_norm", "layers.{}.query_norm"),
    **linear("layers.{}.self_attn.k_norm", "layers.{}.key_norm"),
}


def _windows(options: JsonConfig, causal: bool) -> tuple[int | None, ...]:
    window = sliding_window(options) if options.get("use_sliding_window", False) else None
    first = options.get("max_window_layers", 28)
    return layer_windows(options, causal, window, lambda layer: layer >= first)
