"""ModernBERT (Warner et al. 2024, arXiv 2412.13663)."""

from models.config.activations import ACTIVATIONS
from models.config.blueprint import Blueprint, linear
from models.config.encoder_config import EncoderConfig
from models.config.json_config import JsonConfig
from models.families.rope import rotary

_BASES = {"full_attention": 160_000.0, "sliding_attention": 10_000.0}


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a ModernBERT."""
    layers, head_size = raw["num_hidden_layers"], raw["hidden_size"] // raw["num_attention_heads"]
    every = raw.get("global_attn_every_n_layers", 3)
    kinds = raw.get("layer_types") or [
        "sliding_attention" if i % every else "full_attention" for i in range(layers)
    ]
    if unknown := set(kinds) - set(_BASES):
        raise raw.refusal("layer_types", sorted(unknown), tuple(_BASES))
    reach = raw.get("local_attention", 128) // 2
    whole, local = (
        rotary(raw, head_size, base=raw.get(key, _BASES[kind]), kind=kind)
        for kind, key in (
            ("full_attention", "global_rope_theta"),
            ("sliding_attention", "local_rope_theta"),
        )
    )
    config = EncoderConfig(
        family="modernbert",
        vocab_size=raw["vocab_size"],
        hidden_size=raw["hidden_size"],
        num_layers=layers,
        num_heads=raw["num_attention_heads"],
        intermediate_size=raw["intermediate_size"],
        max_positions=raw["max_position_embeddings"],
        activation=raw.among("hidden_activation", ACTIVATIONS, "gelu"),
        norm_eps=raw.get("norm_eps", 1e-5),
        positions=whole,
        local=local,
        reaches=tuple(reach if kind == "sliding_attention" else None for kind in kinds),
        arrangement="pre",
        gated=True,
    )
    return Blueprint(
        config=config,
        tensors=_tensors(raw),
        absent=frozenset(f"layers.0.attention_norm.{part}" for part in ("weight", "bias")),
        unused=("head.*", "decoder.*", "classifier.*"),
        prefixes=("model.",),
    )


def _tensors(raw: JsonConfig) -> dict[str, str]:
    norms, attention, ffn = (raw.get(f"{p}_bias", False) for p in ("norm", "attention", "mlp"))
    return {
        "embeddings.tok_embeddings.weight": "token_table",
        **linear("embeddings.norm", "norm", norms),
        **linear("layers.{}.attn_norm", "layers.{}.attention_norm", norms),
        **linear("layers.{}.attn.Wqkv", "layers.{}.query|key|value", attention),
        **linear("layers.{}.attn.Wo", "layers.{}.output", attention),
        **linear("layers.{}.mlp_norm", "layers.{}.ffn_norm", norms),
        **linear("layers.{}.mlp.Wi", "layers.{}.gate|up", ffn),
        **linear("layers.{}.mlp.Wo", "layers.{}.down", ffn),
        **linear("final_norm", "final_norm", norms),
    }
