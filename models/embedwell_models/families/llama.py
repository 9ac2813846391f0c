"""Llama (Touvron et al. 2023, arXiv 2302.13971), Mistral (arXiv 2310.06825) and related models."""

from dataclasses import replace
from typing import Any

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import linear
from embedwell_models.families.decoder import (
    is_causal,
    layer_windows,
    read_text_config,
    sliding_window,
)
from embedwell_models.families.family import DocsRow, Family, NextToken
from embedwell_models.families.heads import (
    ClassificationLayers,
    LinearLayer,
    decoder,
)
from embedwell_models.families.rope import original_positions, rotary

_MINISTRAL3_ROPE = {
    **{"rope_type": "yarn", "rope_theta": 1_000_000.0, "factor": 16.0},
    **{"original_max_position_embeddings": 16_384, "mscale": 1.0, "mscale_all_dim": 1.0},
}
UNUSED = ("lm_head.weight", "score.weight", "layers.*.self_attn.rotary_emb.inv_freq")


def tensors(biased: bool, output_biased: bool, ffn_biased: bool) -> dict[str, str]:
    """Map the tensors of a Llama. biased: whether queries, keys and values have a bias."""
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


def config(options: JsonConfig, *, head_size: int = 0, **overrides: Any) -> EncoderConfig:
    """Build the configuration of a Llama. overrides: fields that differ in a related family.

    head_size: the default if config.json has none; 0 for hidden_size / heads.
    """
    if overrides["causal"]:  # the option would change the arrangement, but transformers ignores it
        options.require("use_bidirectional_attention", False)
    heads, width = options["num_attention_heads"], options["hidden_size"]
    head_size = options.get("head_dim", head_size or width // heads)
    positions = overrides.get("positions") or rotary(options, head_size)
    fields: dict[str, Any] = {
        "vocab_size": options["vocab_size"],
        "hidden_size": width,
        "num_layers": options["num_hidden_layers"],
        "num_heads": heads,
        "num_kv_heads": options.get("num_key_value_heads", heads),
        "head_size": head_size,
        "intermediate_size": options["intermediate_size"],
        "max_positions": options["max_position_embeddings"],
        "activation": options.choice("hidden_act", ACTIVATIONS, "silu"),
        "norm": "rms",
        "norm_eps": options.get("rms_norm_eps", 1e-6),
        "arrangement": "pre",
        "gated": True,
        "positions": positions,
    }
    return plain_config(**{**fields, **overrides})


def spec(config: EncoderConfig, tensors: dict[str, str], norm_shift: float = 0) -> ModelSpec:
    """Build the spec of a model with Llama's tensor names."""
    return ModelSpec(
        config=config,
        tensors=tensors,
        unused=UNUSED,
        prefixes=("model.",),
        norm_shift=norm_shift,
    )


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Llama."""
    options.require("sliding_window", None)
    biased = options.get("attention_bias", False)
    return spec(
        config(options, causal=is_causal(options, "Llama")),
        tensors(biased, biased, options.get("mlp_bias", False)),
    )


def mistral(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Mistral: every layer has a window."""
    options.require("layer_types", None)
    causal = is_causal(options, "Mistral")
    windows = layer_windows(options, causal, sliding_window(options), lambda layer: True)
    return spec(config(options, causal=causal, windows=windows), tensors(False, False, False))


def bidirectional(options: JsonConfig) -> ModelSpec:
    """Build the spec of NVIDIA's bidirectional Llama with mean pooling."""
    options.require("is_causal", False)
    options.require("pooling", "avg")
    biased = options.get("attention_bias", False)
    return spec(
        config(options, causal=False), tensors(biased, biased, options.get("mlp_bias", False))
    )


def bidirectional_head(options: JsonConfig) -> ClassificationLayers:
    """Describe the head of NVIDIA's rerankers: a score of the mean of all tokens."""
    output = LinearLayer("score", bias=False)
    return ClassificationLayers("mean", (), output, divisor=options.get("temperature", 1.0))


def ministral3(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Ministral 3 for texts up to its original maximum length.

    For longer texts, the model scales queries by their positions, which is not supported.
    """
    if not options.get("rope_parameters", {}) and not options.get("rope_scaling", {}):
        options = options.without("rope_parameters").with_defaults(
            {"rope_parameters": _MINISTRAL3_ROPE}
        )
    rope = options.nested("rope_scaling" if options.get("rope_scaling", {}) else "rope_parameters")
    causal = is_causal(options, "Ministral3")
    windows = layer_windows(options, causal, options.get("sliding_window"), lambda layer: True)
    encoder = config(
        options,
        head_size=128,
        causal=causal,
        windows=windows,
        norm_eps=options.get("rms_norm_eps", 1e-5),
        max_positions=original_positions(options, rope),
        limited=True,
    )
    return spec(encoder, tensors(False, False, False))


def _mistral3(options: JsonConfig) -> ModelSpec:
    """Build the spec of the text encoder of a Mistral that also reads images."""
    readers = {"mistral": mistral, "ministral3": ministral3}
    return read_text_config(options, "Mistral3", readers, ("vision_tower", "multi_modal_projector"))


_ROW = DocsRow(
    "Llama, Mistral, Ministral 3",
    "e5-mistral, SFR-Embedding",
    positions="rotary, all scalings",
    layers="pre-norm (RMSNorm), gated FFN; causal unless `is_causal` is false; "
    "`mistral3`: texts only",
)
_LLAMA = Family(
    model_types=("llama",),
    read=read,
    classification_head=decoder,
    next_token=NextToken(tied=False),
    tokenizer_override="nothing",
    row=_ROW,
)
_MINISTRAL3 = Family(
    model_types=("ministral3",),
    read=ministral3,
    classification_head=decoder,
    next_token=NextToken(tied=False),
    row=_ROW,
)
_MISTRAL3 = Family(
    model_types=("mistral3",),
    read=_mistral3,
    tokenizer_override="nothing",
    ignored_keys=("projector_*", "multimodal_projector_*", "vision_feature_layer", "spatial_*"),
    row=_ROW,
)
_NEMOTRON = Family(
    model_types=("llama_bidirec",),
    read=bidirectional,
    classification_head=bidirectional_head,
    rerank_format="llama-nemotron-rerank",
    replaced_code=("LlamaBidirectionalModel",),
    row=DocsRow(
        "Llama Nemotron Embed, Rerank",
        "llama-nemotron-embed, nv-embedqa, llama-nemotron-rerank",
        positions="rotary",
        layers="as Llama, bidirectional",
    ),
)
FAMILIES = (
    _LLAMA,
    replace(_LLAMA, model_types=("mistral",), read=mistral),
    _MINISTRAL3,
    _MISTRAL3,
    _NEMOTRON,
)
