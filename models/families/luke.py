"""LUKE (Yamada et al. 2020, arXiv 2010.01057) of texts alone, without entities: a RoBERTa."""

from dataclasses import replace

from models.config.blueprint import Blueprint
from models.config.json_config import JsonConfig
from models.families import roberta

UNUSED = (
    *roberta.UNUSED,
    *("entity_embeddings.*", "entity_predictions.*"),
    # Queries from and to entities; words ask words with the usual ones.
    "encoder.layer.{}.attention.self.???_query.*",
)


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a LUKE; with `use_entity_aware_attention` or without, words see the same."""
    return replace(roberta.read(raw), unused=UNUSED, prefixes=("luke.",))
