"""LFM2 (Amini et al. 2025, arXiv 2511.23404): short convolutions, with attention in some layers.

LFM2.5-Embedding and -ColBERT: liquid.ai/blog/lfm2-5-retrievers.
"""

from dataclasses import replace

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ConvolutionSpec
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import linear
from embedwell_models.families.decoder import is_causal
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.rope import rotary

_BIDIRECTIONAL = "Lfm2Bidirectional"
_KINDS = ("full_attention", "conv")


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an LFM2 (causal) or of an LFM2.5 embedding model (bidirectional).

    In the bidirectional model, convolutions are centred too.
    """
    causal = not _is_bidirectional(options)
    if causal and not is_causal(options, "Lfm2"):
        raise options.unsupported("is_causal", False, f"true, or a class {_BIDIRECTIONAL}…")
    options.require("use_bidirectional_attention", False)
    width, heads = options["hidden_size"], options["num_attention_heads"]
    head_size = options.get("head_dim", width // heads)
    kinds = _layer_types(options)
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=len(kinds),
        num_heads=heads,
        num_kv_heads=options.get("num_key_value_heads", 8),
        head_size=head_size,
        intermediate_size=_intermediate_size(options),
        max_positions=options["max_position_embeddings"],
        activation="silu",
        gated=True,
        norm="rms",
        norm_eps=options.get("norm_eps", 1e-5),
        arrangement="pre",
        causal=causal,
        positions=rotary(options, head_size, base=1_000_000.0),
    )
    convolution = _convolution(options, causal)
    layers = (
        replace(layer, mixer=convolution) if kind == "conv" else layer
        for layer, kind in zip(config.layers, kinds, strict=True)
    )
    return ModelSpec(
        config=replace(config, layers=tuple(layers)),
        tensors=_tensors(options.get("conv_bias", False)),
        unused=("lm_head.weight",),
        prefixes=("model.", "lfm2."),
    )


def _convolution(options: JsonConfig, causal: bool) -> ConvolutionSpec:
    width = options.get("conv_L_cache", 3)
    if not causal and width % 2 == 0:
        raise options.unsupported("conv_L_cache", width, "an odd number")
    return ConvolutionSpec(width=width)


def _tensors(biased: bool) -> dict[str, str]:
    # biased: whether convolutions have biases.
    return {
        "embed_tokens.weight": "token_table",
        **linear("embedding_norm", "final_norm"),
        **linear("layers.{}.operator_norm", "layers.{}.attention_norm"),
        **linear("layers.{}.self_attn.q_proj", "layers.{}.query"),
        **linear("layers.{}.self_attn.k_proj", "layers.{}.key"),
        **linear("layers.{}.self_attn.v_proj", "layers.{}.value"),
        **linear("layers.{}.self_attn.out_proj", "layers.{}.output"),
        **linear("layers.{}.self_attn.q_layernorm", "layers.{}.query_norm"),
        **linear("layers.{}.self_attn.k_layernorm", "layers.{}.key_norm"),
        **linear("layers.{}.conv.in_proj", "layers.{}.convolution_input", biased),
        **linear("layers.{}.conv.conv", "layers.{}.convolution", biased),
        **linear("layers.{}.conv.out_proj", "layers.{}.convolution_output", biased),
        **linear("layers.{}.ffn_norm", "layers.{}.ffn_norm"),
        **linear("layers.{}.feed_forward.w1", "layers.{}.gate"),
        **linear("layers.{}.feed_forward.w3", "layers.{}.up"),
        **linear("layers.{}.feed_forward.w2", "layers.{}.down"),
    }


def _is_bidirectional(options: JsonConfig) -> bool:
    code = str(options.get("auto_map", {}).get("AutoModel", "")).rpartition(".")[2]
    return any(
        name.startswith(_BIDIRECTIONAL) for name in (code, *options.get("architectures", ()))
    )


def _layer_types(options: JsonConfig) -> list[str]:
    layers = range(options["num_hidden_layers"])
    attention = options.get("full_attn_idxs", layers)
    kinds: list[str] = options.get("layer_types", [_KINDS[i not in attention] for i in layers])
    if len(kinds) != len(layers) or not set(kinds) <= set(_KINDS):
        raise options.unsupported("layer_types", kinds, f"{len(layers)} of {_KINDS}")
    return kinds


def _intermediate_size(options: JsonConfig) -> int:
    size: int = options.first_of("block_ff_dim", "intermediate_size")
    if not options.get("block_auto_adjust_ff_dim", True):
        return size
    multiplier = options.nullable("block_ffn_dim_multiplier", 1.0)
    size = int(2 * size / 3)
    if multiplier is None:
        return size
    step: int = options.get("block_multiple_of", 256)
    return -(-int(multiplier * size) // step) * step


FAMILIES = (
    Family(
        model_types=("lfm2",),
        read=read,
        replaced_code=("Lfm2BidirectionalModel",),
        row=DocsRow(
            "LFM2 (causal), LFM2.5 (bidirectional)",
            "LFM2-ColBERT-350M, LFM2.5-Embedding-350M, LFM2.5-ColBERT-350M",
            positions="rotary",
            layers="short convolutions, attention in some layers; pre-norm (RMSNorm), gated FFN",
        ),
    ),
)
