"""ELECTRA (Clark et al. 2020, arXiv 2003.10555): a BERT with tables of another width."""

from models.config.blueprint import Blueprint, affine
from models.config.json_config import JsonConfig
from models.families import bert

UNUSED = (
    *bert.UNUSED,
    "discriminator_predictions.*",
    "generator_predictions.*",
    "generator_lm_head.*",
)


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of an ELECTRA, generator or discriminator."""
    raw.only("position_embedding_type", "absolute")
    config = bert.config(raw, embedding_size=raw["embedding_size"])
    tensors = dict(bert.TENSORS)
    if config.embedding_size != config.hidden_size:
        tensors |= affine("embeddings_project", "project")
    return Blueprint(config=config, tensors=tensors, unused=UNUSED, prefixes=("electra.",))
