"""ModernBERT (Warner et al. 2024, arXiv 2412.13663)."""

from dataclasses import replace

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import linear
from embedwell_models.families.decoder import layer_windows
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import ACTIVATIONS as HEAD_ACTIVATIONS
from embedwell_models.families.heads import (
    ClassificationLayers,
    LinearLayer,
    MaskedLMHead,
    NormLayer,
)
from embedwell_models.families.rope import rotary

_BASES = {"full_attention": 160_000.0, "sliding_attention": 10_000.0}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a ModernBERT."""
    head_size = options["hidden_size"] // options["num_attention_heads"]
    every = options.get("global_attn_every_n_layers", 3)
    # Each side of a token. transformers prefers this key, which its own files lack.
    window = options.get("sliding_window", options.get("local_attention", 128) // 2)
    full, local = (
        rotary(options, head_size, base=options.get(key, _BASES[kind]), kind=kind)
        for kind, key in (
            ("full_attention", "global_rope_theta"),
            ("sliding_attention", "local_rope_theta"),
        )
    )
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=options["hidden_size"],
        num_layers=options["num_hidden_layers"],
        num_heads=options["num_attention_heads"],
        intermediate_size=options["intermediate_size"],
        max_positions=options["max_position_embeddings"],
        activation=options.choice("hidden_activation", ACTIVATIONS, "gelu"),
        norm_eps=options.get("norm_eps", 1e-5),
        positions=full,
        windows=layer_windows(options, False, window, lambda layer: layer % every > 0),
        local={"positions": local},
        arrangement="pre",
        gated=True,
    )
    first = replace(config.layers[0], attention_norm=False)
    return ModelSpec(
        config=replace(config, layers=(first, *config.layers[1:])),
        tensors=_tensors(options),
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


def _classification_head(options: JsonConfig) -> ClassificationLayers:
    pooling = options.choice("classifier_pooling", {"cls": "cls", "mean": "mean"}, "cls")
    dense = LinearLayer(
        "head.dense",
        options.choice("classifier_activation", HEAD_ACTIVATIONS, "gelu"),
        options.get("classifier_bias", False),
    )
    norm = NormLayer("head.norm", options.get("norm_bias", False), options.get("norm_eps", 1e-5))
    return ClassificationLayers(pooling, (dense, norm), LinearLayer("classifier"))


def _masked_lm_head(options: JsonConfig, config: EncoderConfig) -> MaskedLMHead:
    return MaskedLMHead(
        dense="head.dense",
        norm="head.norm",
        output="decoder",
        output_bias="decoder.bias",
        activation=options.choice("classifier_activation", ACTIVATIONS, "gelu"),
        eps=config.norm_eps,
        dense_has_bias=options.get("classifier_bias", False),
        norm_has_bias=options.get("norm_bias", False),
    )


FAMILIES = (
    Family(
        model_types=("modernbert",),
        read=read,
        classification_head=_classification_head,
        masked_lm_head=_masked_lm_head,
        row=DocsRow(
            "ModernBERT",
            "modernbert-embed, gte-modernbert, granite-embedding r2 (multilingual)",
            positions="rotary, two bases",
            layers="gated FFN, local and global attention",
        ),
    ),
)
