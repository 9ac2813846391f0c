"""Gemma (arXiv 2403.08295), Gemma 2 (arXiv 2408.00118) and Gemma 3 (arXiv 2503.19786)."""

from dataclasses import replace
from typing import Any

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import linear
from embedwell_models.families import llama, qwen
from embedwell_models.families.decoder import (
    is_causal,
    layer_windows,
    read_text_config,
    sliding_window,
)
from embedwell_models.families.family import DocsRow, Family, NextToken
from embedwell_models.families.heads import decoder
from embedwell_models.families.rope import rotary
from embedwell_models.positions.schemes import Rotary

_HEAD_SIZE = 256
SANDWICH = {
    **linear("layers.{}.post_attention_layernorm", "layers.{}.attention_output_norm"),
    **linear("layers.{}.pre_feedforward_layernorm", "layers.{}.ffn_norm"),
    **linear("layers.{}.post_feedforward_layernorm", "layers.{}.ffn_output_norm"),
}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Gemma."""
    options.require("hidden_activation", "gelu_pytorch_tanh")
    # The first checkpoints state gelu, but were trained with its tanh approximation.
    names = {**ACTIVATIONS, "gelu": "gelu_tanh"}
    activation = options.choice("hidden_act", names, "gelu_pytorch_tanh")
    return _spec(options, {}, activation=activation, causal=_is_causal(options, "Gemma"))


def gemma2(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Gemma 2: every second layer has a window, and scores are soft-capped."""
    return of_gemma2(options, _is_causal(options, "Gemma2"))


def of_gemma2(options: JsonConfig, causal: bool) -> ModelSpec:
    """Build the spec of a Gemma 2. causal: whether a token attends to earlier tokens only."""
    return _spec(
        options,
        SANDWICH,
        **_later(options),
        causal=causal,
        windows=layer_windows(
            options, causal, sliding_window(options), lambda layer: layer % 2 == 0
        ),
        softcap=options.nullable("attn_logit_softcapping", 50.0) or 0.0,
    )


def gemma3(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Gemma 3 for texts: layers with a window have their own frequencies.

    In EmbeddingGemma (Vera et al. 2025, arXiv 2509.20354), half of the window is on each side.
    """
    causal, width = is_causal(options, "Gemma3|Gemma3Text"), sliding_window(options)
    if options.get("use_bidirectional_attention", False):
        options.require("is_causal", True)
        causal, width = False, width and width // 2
    return of_gemma3(options, causal, width)


def of_gemma3(options: JsonConfig, causal: bool, width: int | None, **local: Any) -> ModelSpec:
    """Build the spec of a Gemma 3. causal: whether a token attends to earlier tokens only.

    width: the window, see `layer_windows`. local: fields of AttentionSpec for layers with a window.
    """
    options.require("attn_logit_softcapping", None)
    every = options.get("sliding_window_pattern", 6)
    return _spec(
        options,
        SANDWICH | qwen.NORMS,
        **_later(options),
        causal=causal,
        windows=layer_windows(options, causal, width, lambda layer: (layer + 1) % every > 0),
        positions=_rotary(options, "full_attention", 1_000_000.0),
        local={"positions": _rotary(options, "sliding_attention", 10_000.0), **local},
    )


def _whole(options: JsonConfig) -> ModelSpec:
    """Build the spec of the text encoder of a Gemma 3 that also reads images."""
    # In such a model, transformers ignores this option.
    options.nested("text_config").require("use_bidirectional_attention", False)
    towers = ("vision_tower", "multi_modal_projector")
    return read_text_config(options, "Gemma3", {"gemma3_text": gemma3}, towers, _PUBLISHED)


_PUBLISHED = {  # transformers' defaults, which the text_config of Gemma's own files leaves out
    **{"model_type": "gemma3_text", "vocab_size": 262_208, "max_position_embeddings": 131_072},
    **{"num_attention_heads": 8, "num_key_value_heads": 4},
}


def _spec(options: JsonConfig, names: dict[str, str], **overrides: Any) -> ModelSpec:
    biased = options.get("attention_bias", False)
    config = llama.config(
        options, head_size=_HEAD_SIZE, token_scale=options["hidden_size"] ** 0.5, **overrides
    )
    return llama.spec(config, llama.tensors(biased, biased, False) | names, norm_shift=1.0)


def _later(options: JsonConfig) -> dict[str, Any]:
    return {
        "activation": options.choice("hidden_activation", ACTIVATIONS, "gelu_pytorch_tanh"),
        "arrangement": "sandwich",
        "scale": options.get("query_pre_attn_scalar", 256) ** -0.5,
    }


def _is_causal(options: JsonConfig, family: str) -> bool:
    # With this option, transformers' result depends on its attention implementation.
    options.require("use_bidirectional_attention", False)
    return is_causal(options, family)


def _rotary(options: JsonConfig, kind: str, base: float) -> Rotary:
    size = options.get("head_dim", _HEAD_SIZE)
    if kind == "full_attention":
        return rotary(options, size, base=options.get("rope_theta", base), kind=kind)
    # With the older keys, frequencies of layers with a window are never scaled.
    return rotary(
        options.without("rope_scaling"),
        size,
        base=options.get("rope_local_base_freq", base),
        kind=kind,
    )


_ROW = DocsRow(
    "Gemma, Gemma 2, Gemma 3",
    "EmbeddingGemma, harrier-oss 270m, 27b",
    positions="rotary, two bases",
    layers="as Llama; Gemma 2 and 3 also normalise after each block, Gemma 2 caps scores; "
    "`gemma3`: texts only",
)
_GEMMA = Family(
    model_types=("gemma",),
    read=read,
    classification_head=decoder,
    next_token=NextToken(tied=True),
    tokenizer_override="nothing",
    row=_ROW,
)
FAMILIES = (
    _GEMMA,
    replace(
        _GEMMA,
        model_types=("gemma2",),
        read=gemma2,
        next_token=NextToken(tied=True, softcap=30.0),
    ),
    replace(_GEMMA, model_types=("gemma3_text",), read=gemma3, tokenizer_classes=("Gemma3",)),
    Family(
        model_types=("gemma3",),
        read=_whole,
        classification_head=lambda options: decoder(options.nested("text_config")),
        tokenizer_override="nothing",
        ignored_keys=("mm_tokens_per_image",),
        row=_ROW,
    ),
)
