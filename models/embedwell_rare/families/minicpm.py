"""MiniCPM (Hu et al. 2024, arXiv 2404.06395): a Llama whose layers add scaled outputs.

Its rerankers have a score head for each of their last layers, of which one gives the score (Chen et
al. 2024, arXiv 2402.03216), and FlagEmbedding computes them.
"""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import llama
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import ClassificationLayers, LinearLayer

_RERANKER = "LayerWiseMiniCPMForCausalLM"


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a MiniCPM that reranks.

    Each sum of a layer is x + scale * f(norm(x)), and a norm does not change with the scale of x.
    So the states are computed as x / scale: the sums are those of a Llama, the token vectors are
    divided by the scale, and each norm's epsilon by its square.
    """
    options.require("architectures", [_RERANKER])
    options.require("head_type", "simple")
    options.require("head_multi", True)
    options.require("rope_scaling", None)
    scale = options.get("scale_depth", 1.0) / options["num_hidden_layers"] ** 0.5
    biased = options.get("attention_bias", False)
    config = llama.config(
        up_to_the_score(options),
        causal=True,
        token_scale=options.get("scale_emb", 1.0) / scale,
        norm_eps=options.get("rms_norm_eps", 1e-6) / scale**2,
    )
    return with_heads(llama.spec(config, llama.tensors(biased, biased, False)), options)


def _head(options: JsonConfig) -> ClassificationLayers:
    return head(scoring_layer(options) - options["start_layer"])


def scoring_layer(options: JsonConfig) -> int:
    """Return the number of layers before the score: the one in `cutoff_layers`, or all.

    Raises ModelError for several layers, and for a layer without a head.
    """
    last = options["num_hidden_layers"]
    chosen = options.get("cutoff_layers", [last])
    heads = range(options["start_layer"], last + 1, options.get("layer_sep", 1))
    if len(chosen) != 1 or chosen[0] not in heads:
        raise options.unsupported("cutoff_layers", chosen, f"a list of one of {[*heads]}")
    layer: int = chosen[0]
    return layer


def up_to_the_score(options: JsonConfig) -> JsonConfig:
    """Return the options of the layers before the score alone."""
    return options.with_values({"num_hidden_layers": scoring_layer(options)})


def with_heads(spec: ModelSpec, options: JsonConfig) -> ModelSpec:
    """Return a spec of these layers for the whole checkpoint. options: of all layers."""
    skipped = range(spec.config.num_layers, options["num_hidden_layers"])
    return replace(spec, unused=(*spec.unused, "lm_head.*"), skipped_layers=skipped)


def head(number: int, softcap: float = 0.0) -> ClassificationLayers:
    """Return a head by its number: one row, for the state of the last token.

    softcap: bound of the logits; 0 for no bound.
    """
    output = LinearLayer(f"lm_head.{number}.linear_head", bias=False)
    return ClassificationLayers("lasttoken", (), output, softcap=softcap)


FAMILIES = (
    Family(
        model_types=("minicpm",),
        read=read,
        classification_head=_head,
        head_classes=(_RERANKER,),
        rerank_format="bge-reranker-v2-gemma",
        tokenizer_override="nothing",
        replaced_code=("LayerWiseMiniCPMModel",),
        ignored_keys=("dim_model_base",),
        row=DocsRow(
            "MiniCPM, rerankers by layer",
            "bge-reranker-v2-minicpm-layerwise",
            positions="rotary",
            layers="as Llama, with scaled sums; [one layer scores](rerank.md#one-layer-scores)",
        ),
    ),
)
