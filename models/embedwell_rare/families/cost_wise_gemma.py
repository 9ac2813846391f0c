"""Gemma 2 rerankers by layer, as those of MiniCPM, which could also merge tokens between layers.

The option `compress_ratio` of FlagEmbedding merges them; by its default of 1 it merges none.
"""

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import gemma
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import ClassificationLayers
from embedwell_rare.families import minicpm


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Gemma 2 that reranks."""
    options.require("layer_wise", True)
    options.require("compress_ratio", 1)
    spec = gemma.of_gemma2(minicpm.up_to_the_score(options), causal=True)
    return minicpm.with_heads(spec, options)


def _head(options: JsonConfig) -> ClassificationLayers:
    # With one layer, FlagEmbedding takes the first head, whichever layer it is.
    softcap = options.nullable("final_logit_softcapping", 30.0)
    return minicpm.head(0, softcap or 0.0)


FAMILIES = (
    Family(
        model_types=("cost_wise_gemma",),
        read=read,
        classification_head=_head,
        head_classes=("CostWiseGemmaForCausalLM",),
        rerank_format="bge-reranker-v2.5-gemma2-lightweight",
        tokenizer_override="nothing",
        replaced_code=("CostWiseGemmaModel",),
        ignored_keys=("sliding_window_size",),
        row=DocsRow(
            "Gemma 2, rerankers by layer",
            "bge-reranker-v2.5-gemma2-lightweight",
            positions="rotary",
            layers="as Gemma 2; [one layer scores](rerank.md#one-layer-scores)",
        ),
    ),
)
