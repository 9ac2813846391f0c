"""RoBERTa (Liu et al. 2019, arXiv 1907.11692), XLM-RoBERTa and CamemBERT: BERT's names."""

from models.config.blueprint import Blueprint
from models.config.json_config import JsonConfig
from models.families import bert
from models.positions.schemes import Learned

UNUSED = (*bert.UNUSED, "lm_head.*")


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a RoBERTa."""
    raw.only("position_embedding_type", "absolute")
    # The table's first rows, up to the number of the padding token, belong to no position.
    offset = raw.get("pad_token_id", 1) + 1
    config = bert.config(
        raw,
        table=Learned(offset=offset),
        max_positions=raw["max_position_embeddings"] - offset,
    )
    return Blueprint(config=config, tensors=bert.TENSORS, unused=UNUSED, prefixes=("roberta.",))
