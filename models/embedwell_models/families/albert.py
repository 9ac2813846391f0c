"""ALBERT (Lan et al. 2019, arXiv 1909.11942): narrow tables, and layers that share weights."""

from embedwell_models.config.activations import ACTIVATIONS
from embedwell_models.config.checkpoint_spec import CheckpointSpec, affine
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import bert

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


def read(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of an ALBERT, whose numbered layers are groups of repeated layers."""
    options.require("position_embedding_type", "absolute")
    options.require("inner_group_num", 1)
    config = bert.config(
        options,
        embedding_size=options["embedding_size"],
        distinct_layers=options.get("num_hidden_groups", 1),
        activation=options.choice("hidden_act", ACTIVATIONS, "gelu_new"),
    )
    return CheckpointSpec(config=config, tensors=TENSORS, unused=UNUSED, prefixes=("albert.",))
