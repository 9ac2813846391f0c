"""Gemma (arXiv 2403.08295), Gemma 2 (arXiv 2408.00118) and Gemma 3 (arXiv 2503.19786)."""

from typing import Any

from models.config.activations import ACTIVATIONS
from models.config.blueprint import Blueprint, linear
from models.config.json_config import JsonConfig
from models.families import llama, qwen
from models.families.decoder import is_causal, reaches, sliding_window
from models.families.rope import rotary
from models.positions.schemes import Rotary

_HEAD_SIZE = 256
_SANDWICH = {
    **linear("layers.{}.post_attention_layernorm", "layers.{}.attention_exit_norm"),
    **linear("layers.{}.pre_feedforward_layernorm", "layers.{}.ffn_norm"),
    **linear("layers.{}.post_feedforward_layernorm", "layers.{}.ffn_exit_norm"),
}


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a Gemma."""
    raw.only("hidden_activation", "gelu_pytorch_tanh")
    # The first checkpoints said gelu for what was trained with the approximation.
    names = {**ACTIVATIONS, "gelu": "gelu_tanh"}
    activation = raw.among("hidden_act", names, "gelu_pytorch_tanh")
    return _blueprint(raw, {}, activation=activation, causal=_is_causal(raw, "Gemma"))


def gemma2(raw: JsonConfig) -> Blueprint:
    """The blueprint of a Gemma 2: every second layer has the window, and scores are capped."""
    causal = _is_causal(raw, "Gemma2")
    return _blueprint(
        raw,
        _SANDWICH,
        **_later(raw),
        causal=causal,
        reaches=reaches(raw, causal, sliding_window(raw), lambda layer: layer % 2 == 0),
        softcap=raw.nullable("attn_logit_softcapping", 50.0) or 0.0,
    )


def gemma3(raw: JsonConfig) -> Blueprint:
    """The blueprint of a Gemma 3 that reads text: layers with the window have angles of their own.

    EmbeddingGemma (Vera et al. 2025, arXiv 2509.20354) sees half of the window on each side.
    """
    raw.only("attn_logit_softcapping", None)
    every, width = raw.get("sliding_window_pattern", 6), sliding_window(raw)
    causal = is_causal(raw, "Gemma3|Gemma3Text")
    if raw.get("use_bidirectional_attention", False):
        raw.only("is_causal", True)
        causal, width = False, width and width // 2
    return _blueprint(
        raw,
        _SANDWICH | qwen.NORMS,
        **_later(raw),
        causal=causal,
        reaches=reaches(raw, causal, width, lambda layer: (layer + 1) % every > 0),
        positions=_rotary(raw, "full_attention", 1_000_000.0),
        local=_rotary(raw, "sliding_attention", 10_000.0),
    )


def _blueprint(raw: JsonConfig, names: dict[str, str], **different: Any) -> Blueprint:
    biased = raw.get("attention_bias", False)
    config = llama.config(
        raw, head_size=_HEAD_SIZE, token_scale=raw["hidden_size"] ** 0.5, **different
    )
    return llama.blueprint(config, llama.tensors(biased, biased, False) | names, norm_shift=1.0)


def _later(raw: JsonConfig) -> dict[str, Any]:
    return {
        "activation": raw.among("hidden_activation", ACTIVATIONS, "gelu_pytorch_tanh"),
        "arrangement": "sandwich",
        "scale": raw.get("query_pre_attn_scalar", 256) ** -0.5,
    }


def _is_causal(raw: JsonConfig, family: str) -> bool:
    # What transformers computes for it depends on the implementation of its attention.
    raw.only("use_bidirectional_attention", False)
    return is_causal(raw, family)


def _rotary(raw: JsonConfig, kind: str, base: float) -> Rotary:
    size = raw.get("head_dim", _HEAD_SIZE)
    if kind == "full_attention":
        return rotary(raw, size, base=raw.get("rope_theta", base), kind=kind)
    # The older keys never stretch the angles of the layers with the window.
    return rotary(
        raw.without("rope_scaling"), size, base=raw.get("rope_local_base_freq", base), kind=kind
    )
