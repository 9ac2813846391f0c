"""DPR (Karpukhin et al. 2020, arXiv 2004.04906): a BERT for questions and a BERT for passages."""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import bert
from embedwell_models.families.family import DocsRow, Family


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of the question or passage encoder.

    A vector is the first token's state, without a projection.
    """
    options.require("projection_dim", 0)
    prefixes = ("question_encoder.bert_model.", "ctx_encoder.bert_model.")
    return replace(bert.read(options), prefixes=prefixes)


FAMILIES = (
    Family(
        model_types=("dpr",),
        read=read,
        tokenizer_override="normalizer",
        tokenizer_classes=("DPRContextEncoder", "DPRQuestionEncoder"),
        row=DocsRow(
            "DPR", "dpr-ctx_encoder, dpr-question_encoder", positions="learned", layers="as BERT"
        ),
    ),
)
