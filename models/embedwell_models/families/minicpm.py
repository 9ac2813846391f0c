"""MiniCPM (Hu et al. 2024, arXiv 2404.06395): a Llama whose layers add scaled outputs."""

from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import layerwise, llama
from embedwell_models.families.classification_heads import ClassificationLayers
from embedwell_models.families.family import Family, Row

_RERANKER = "LayerWiseMiniCPMForCausalLM"


def read(options: JsonConfig) -> CheckpointLayout:
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
        layerwise.up_to_the_score(options),
        causal=True,
        token_scale=options.get("scale_emb", 1.0) / scale,
        norm_eps=options.get("rms_norm_eps", 1e-6) / scale**2,
    )
    return layerwise.with_heads(llama.spec(config, llama.tensors(biased, biased, False)), options)


def _head(options: JsonConfig) -> ClassificationLayers:
    return layerwise.head(layerwise.scoring_layer(options) - options["start_layer"])


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
        rows=(
            Row(
                family="MiniCPM, rerankers by layer",
                models="bge-reranker-v2-minicpm-layerwise",
                positions="rotary",
                layers="as Llama, with scaled sums; [one layer scores](rerank.md#one-layer-scores)",
            ),
        ),
    ),
)
