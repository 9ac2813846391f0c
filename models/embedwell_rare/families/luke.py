"""LUKE (Yamada et al. 2020, arXiv 2010.01057) for texts without entities: a RoBERTa."""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import heads, roberta
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import two_layers

UNUSED = (
    *roberta.UNUSED,
    *("entity_embeddings.*", "entity_predictions.*"),
    # Query matrices for entities; attention between words uses the usual query matrix.
    "encoder.layer.{}.attention.self.???_query.*",
)


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a LUKE; `use_entity_aware_attention` has no effect without entities."""
    return replace(roberta.read(options), unused=UNUSED, prefixes=("luke.",))


FAMILIES = (
    Family(
        model_types=("luke",),
        read=read,
        classification_head=two_layers("luke.pooler.dense", "classifier"),
        masked_lm_head=heads.ROBERTA_MASKED_LM,
        ignored_keys=("entity_*", "use_entity_aware_attention"),
        row=DocsRow(
            "LUKE", "luke-base, mluke", positions="learned, with offset", layers="post-norm"
        ),
    ),
)
