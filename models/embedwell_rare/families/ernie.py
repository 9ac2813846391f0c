"""ERNIE (Sun et al. 2020, arXiv 1907.12412): a BERT without task ids."""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import bert, heads
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import two_layers


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an ERNIE."""
    options.require("use_task_id", False)
    return replace(bert.read(options), prefixes=("ernie.",))


FAMILIES = (
    Family(
        model_types=("ernie",),
        read=read,
        classification_head=two_layers("ernie.pooler.dense", "classifier"),
        masked_lm_head=heads.BERT_MASKED_LM,
        tokenizer_override="normalizer",
        row=DocsRow("ERNIE", positions="learned", layers="as BERT"),
    ),
)
