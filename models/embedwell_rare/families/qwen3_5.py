"""Qwen3.5 for texts: Gated DeltaNets (Yang et al. 2024, arXiv 2412.06464) and gated attention.

qwen.ai/blog?id=qwen3.5. In a text alone the three positions of a token are equal.
"""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import AttentionSpec, DeltaNetSpec, LayerSpec
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import linear
from embedwell_models.families import llama, qwen
from embedwell_models.families.decoder import is_causal, read_text_config
from embedwell_models.families.family import DocsRow, Family, NextToken
from embedwell_models.families.rope import rotary

_HEAD_SIZE = 256
_KINDS = ("linear_attention", "full_attention")
_LAYER = "layers.{}.linear_attn"
_TENSORS = {
    **llama.tensors(False, False, False),
    **qwen.NORMS,
    **linear("layers.{}.self_attn.q_proj", "layers.{}.query|attention_gate"),
    **linear(f"{_LAYER}.in_proj_qkv", "layers.{}.delta_input"),
    **linear(f"{_LAYER}.conv1d", "layers.{}.delta_convolution"),
    **linear(f"{_LAYER}.in_proj_z", "layers.{}.delta_gate"),
    **linear(f"{_LAYER}.in_proj_b", "layers.{}.delta_strength"),
    **linear(f"{_LAYER}.in_proj_a", "layers.{}.delta_decay"),
    f"{_LAYER}.dt_bias": "layers.{}.delta_decay.bias",
    f"{_LAYER}.A_log": "layers.{}.delta_rate.weight",
    **linear(f"{_LAYER}.norm", "layers.{}.delta_scale"),  # whose weight is not centred at zero
    **linear(f"{_LAYER}.out_proj", "layers.{}.delta_output"),
}
IGNORED = ("mamba_ssm_dtype", "mtp_*", "mlp_only_layers")
"""Keys of config.json that change no vector."""


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts, images and videos, or of its text encoder alone."""
    if options["model_type"] == "qwen3_5_text":
        return _text_only(options)
    return read_text_config(options, "Qwen3_5", {"qwen3_5_text": _text_only}, ("visual",))


def _text_only(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model that only has a text encoder.

    In one that is not causal, attention sees the whole text; a Gated DeltaNet never does.
    """
    options.require("attn_output_gate", True)
    options.require("attention_bias", False)
    options.require("hidden_act", "silu")  # also of the convolutions
    options.require("output_gate_type", "swish", "silu")  # of the Gated DeltaNets
    options = options.with_defaults({"num_key_value_heads": 4})
    share = options.get("partial_rotary_factor", 0.25)
    config = llama.config(
        options,
        head_size=_HEAD_SIZE,
        causal=is_causal(options, "Qwen3_5Text|Qwen3_5"),
        positions=rotary(options, options.get("head_dim", _HEAD_SIZE), share=share),
    )
    kinds, delta_net = _layer_types(options), _delta_net(options)
    layers = (
        replace(layer, mixer=delta_net) if kind == _KINDS[0] else _gated(layer)
        for layer, kind in zip(config.layers, kinds, strict=True)
    )
    spec = llama.spec(replace(config, layers=tuple(layers)), _TENSORS, norm_shift=1)
    return replace(spec, by_head=True, unused=(*spec.unused, "mtp.*"))


def _gated(layer: LayerSpec) -> LayerSpec:
    assert isinstance(layer.mixer, AttentionSpec)
    return replace(layer, mixer=replace(layer.mixer, gated=True))


def _layer_types(options: JsonConfig) -> list[str]:
    count, interval = options["num_hidden_layers"], options.get("full_attention_interval", 4)
    default = [_KINDS[(layer + 1) % interval == 0] for layer in range(count)]
    kinds: list[str] = options.get("layer_types", default)
    if len(kinds) != count or not set(kinds) <= set(_KINDS):
        raise options.unsupported("layer_types", kinds, f"{count} of {_KINDS}")
    return kinds


def _delta_net(options: JsonConfig) -> DeltaNetSpec:
    return DeltaNetSpec(
        heads=options.get("linear_num_value_heads", 32),
        key_heads=options.get("linear_num_key_heads", 16),
        size=options.get("linear_value_head_dim", 128),
        key_size=options.get("linear_key_head_dim", 128),
        width=options.get("linear_conv_kernel_dim", 4),
    )


FAMILIES = (
    Family(
        model_types=("qwen3_5", "qwen3_5_text"),
        name="qwen3_5",
        read=read,
        next_token=NextToken(tied=False),
        ignored_keys=IGNORED,
        row=DocsRow(
            "Qwen3.5",
            positions="rotary",
            layers="Gated DeltaNets, and in every fourth layer gated attention, causal unless "
            "`is_causal` is false; pre-norm (RMSNorm), gated FFN; texts only",
        ),
    ),
)
