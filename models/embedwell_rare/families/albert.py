"""ALBERT (Lan et al. 2019, arXiv 1909.11942): narrow tables, and layers that share weights."""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import bert
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import masked_lm_head, two_layers

_LAYER = "encoder.albert_layer_groups.{}.albert_layers.0"
TENSORS = {
    **{theirs: ours for theirs, ours in bert.TENSORS.items() if theirs.startswith("embeddings.")},
    **affine("encoder.embedding_hidden_mapping_in", "project"),
    **affine(f"{_LAYER}.attention.query", "layers.{}.query"),
    **affine(f"{_LAYER}.attention.key", "layers.{}.key"),
    **affine(f"{_LAYER}.attention.value", "layers.{}.value"),
    **affine(f"{_LAYER}.attention.dense", "layers.{}.output"),
    **affine(f"{_LAYER}.attention.LayerNorm", "layers.{}.attention_norm"),
    **affine(f"{_LAYER}.ffn", "layers.{}.up"),
    **affine(f"{_LAYER}.ffn_output", "layers.{}.down"),
    **affine(f"{_LAYER}.full_layer_layer_norm", "layers.{}.ffn_norm"),
}
UNUSED = (*bert.UNUSED, "predictions.*", "sop_classifier.*")


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an ALBERT, whose numbered layers are groups of repeated layers."""
    options.require("position_embedding_type", "absolute")
    options.require("inner_group_num", 1)
    config = bert.config(
        options,
        embedding_size=options["embedding_size"],
        activation=options.choice("hidden_act", ACTIVATIONS, "gelu_new"),
    )
    groups, count = options.get("num_hidden_groups", 1), config.num_layers
    layers = (
        replace(layer, weights=index * groups // count) for index, layer in enumerate(config.layers)
    )
    config = replace(config, layers=tuple(layers))
    return ModelSpec(config=config, tensors=TENSORS, unused=UNUSED, prefixes=("albert.",))


FAMILIES = (
    Family(
        model_types=("albert",),
        read=read,
        classification_head=two_layers("albert.pooler", "classifier"),
        masked_lm_head=masked_lm_head(
            "predictions.dense",
            "predictions.LayerNorm",
            "predictions.decoder",
            "predictions.bias",
        ),
        tokenizer_override="nothing",
        row=DocsRow(
            "ALBERT",
            "paraphrase-albert",
            positions="learned",
            layers="post-norm, shared weights, factorised token table",
        ),
    ),
)
