"""Phi-3 (Abdin et al. 2024, arXiv 2404.14219) and Phi-4-mini: a Llama with fused matrices."""

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import linear
from embedwell_models.families import llama
from embedwell_models.families.decoder import is_causal, layer_windows
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import decoder
from embedwell_models.families.rope import rotary

_TENSORS = {
    "embed_tokens.weight": "token_table",
    **linear("layers.{}.input_layernorm", "layers.{}.attention_norm"),
    **linear("layers.{}.self_attn.qkv_proj", "layers.{}.query|key|value"),
    **linear("layers.{}.self_attn.o_proj", "layers.{}.output"),
    **linear("layers.{}.post_attention_layernorm", "layers.{}.ffn_norm"),
    **linear("layers.{}.mlp.gate_up_proj", "layers.{}.gate|up"),
    **linear("layers.{}.mlp.down_proj", "layers.{}.down"),
    **linear("norm", "final_norm"),
}
_MAX_POSITIONS = 4096
_KINDS = {"default": "default", **dict.fromkeys(("longrope", "su", "yarn"), "longrope")}
"""Scalings by their names in config.json; all but the default are LongRoPE."""


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Phi-3."""
    options.require("layer_types", None)
    options = _with_current_names(options)
    width, heads = options["hidden_size"], options["num_attention_heads"]
    causal = is_causal(options, "Phi3")
    positions = rotary(
        options,
        options.get("head_dim", width // heads),
        share=options.get("partial_rotary_factor", 1.0),
    )
    window = options.get("sliding_window")
    config = llama.config(
        options,
        causal=causal,
        windows=layer_windows(options, causal, window, lambda layer: True),
        norm_eps=options.get("rms_norm_eps", 1e-5),
        positions=positions,
    )
    return llama.spec(config, _TENSORS)


def _with_current_names(options: JsonConfig) -> JsonConfig:
    key = "rope_scaling" if options.get("rope_scaling", {}) else "rope_parameters"
    scaling = options.nested(key)
    name = "rope_type" if "rope_type" in scaling else "type"
    kind = scaling.choice(name, _KINDS, "default")
    settings = {**options.get(key, {}), "rope_type": kind}
    defaults = {
        "max_position_embeddings": _MAX_POSITIONS,
        "original_max_position_embeddings": _MAX_POSITIONS,
    }
    return options.without(key).with_defaults({**defaults, key: settings})


FAMILIES = (
    Family(
        model_types=("phi3",),
        read=read,
        classification_head=decoder,
        row=DocsRow(
            "Phi-3, Phi-4-mini",
            "Phi-3.5-mini",
            positions="partly rotary, LongRoPE",
            layers="as Llama",
        ),
    ),
)
