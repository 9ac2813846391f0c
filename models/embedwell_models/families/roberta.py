"""RoBERTa (Liu et al. 2019, arXiv 1907.11692), XLM-RoBERTa and CamemBERT, with BERT's names."""

from embedwell_models.config.checkpoint_spec import CheckpointSpec
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import bert
from embedwell_models.positions.schemes import Learned

UNUSED = (*bert.UNUSED, "lm_head.*")


def read(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of a RoBERTa."""
    options.require("position_embedding_type", "absolute")
    # Rows of the position table up to the padding token's id belong to no position.
    offset = options.get("pad_token_id", 1) + 1
    config = bert.config(
        options,
        input_positions=Learned(offset=offset),
        max_positions=options["max_position_embeddings"] - offset,
    )
    return CheckpointSpec(
        config=config, tensors=bert.TENSORS, unused=UNUSED, prefixes=("roberta.",)
    )
