"""RoBERTa (Liu et al. 2019, arXiv 1907.11692), XLM-RoBERTa and CamemBERT, with BERT's names."""

from dataclasses import replace

from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import bert, masked_lm_heads
from embedwell_models.families.classification_heads import two_layers
from embedwell_models.families.family import Family, Row
from embedwell_models.positions.schemes import Learned

UNUSED = (*bert.UNUSED, "lm_head.*")


def read(options: JsonConfig) -> CheckpointLayout:
    """Build the spec of a RoBERTa."""
    options.require("position_embedding_type", "absolute")
    # Rows of the position table up to the padding token's id belong to no position.
    offset = options.get("pad_token_id", 1) + 1
    config = bert.config(
        options,
        input_positions=Learned(offset=offset),
        max_positions=options["max_position_embeddings"] - offset,
    )
    return CheckpointLayout(
        config=config, tensors=bert.TENSORS, unused=UNUSED, prefixes=("roberta.",)
    )


HEAD = two_layers("classifier.dense", "classifier.out_proj")
_ROW = Row(
    family="RoBERTa, XLM-RoBERTa, CamemBERT",
    models="BGE-M3 (dense), multilingual E5, Arctic-l v2",
    positions="learned, with offset",
    layers="post-norm",
)
_ROBERTA = Family(
    model_types=("roberta",),
    read=read,
    classification_head=HEAD,
    masked_lm_head=masked_lm_heads.ROBERTA,
    tokenizer_override="prefix_space",
    rows=(_ROW,),
)
FAMILIES = (
    _ROBERTA,
    replace(_ROBERTA, model_types=("xlm-roberta", "camembert"), tokenizer_override="nothing"),
)
