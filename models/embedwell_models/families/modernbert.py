"""ModernBERT (Warner et al. 2024, arXiv 2412.13663)."""

from embedwell_models.config.activations import ACTIVATIONS
from embedwell_models.config.checkpoint_spec import CheckpointSpec, linear
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families.rope import rotary

_BASES = {"full_attention": 160_000.0, "sliding_attention": 10_000.0}


def read(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of a ModernBERT."""
    layers, head_size = (
        options["num_hidden_layers"],
        options["hidden_size"] // options["num_attention_heads"],
    )
    every = options.get("global_attn_every_n_layers", 3)
    kinds = options.get("layer_types") or [
        "sliding_attention" if i % every else "full_attention" for i in range(layers)
    ]
    if unknown := set(kinds) - set(_BASES):
        raise options.unsupported("layer_types", sorted(unknown), tuple(_BASES))
    window = options.get("local_attention", 128) // 2
    full, local = (
        rotary(options, head_size, base=options.get(key, _BASES[kind]), kind=kind)
        for kind, key in (
            ("full_attention", "global_rope_theta"),
            ("sliding_attention", "local_rope_theta"),
        )
    )
    config = EncoderConfig(
        family="modernbert",
        vocab_size=options["vocab_size"],
        hidden_size=options["hidden_size"],
        num_layers=layers,
        num_heads=options["num_attention_heads"],
        intermediate_size=options["intermediate_size"],
        max_positions=options["max_position_embeddings"],
        activation=options.choice("hidden_activation", ACTIVATIONS, "gelu"),
        norm_eps=options.get("norm_eps", 1e-5),
        positions=full,
        local_positions=local,
        windows=tuple(window if kind == "sliding_attention" else None for kind in kinds),
        arrangement="pre",
        gated=True,
    )
    return CheckpointSpec(
        config=config,
        tensors=_tensors(options),
        absent=frozenset(f"layers.0.attention_norm.{part}" for part in ("weight", "bias")),
        unused=("head.*", "decoder.*", "classifier.*"),
        prefixes=("model.",),
    )


def _tensors(options: JsonConfig) -> dict[str, str]:
    norms, attention, ffn = (options.get(f"{p}_bias", False) for p in ("norm", "attention", "mlp"))
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
