"""DPR (Karpukhin et al. 2020, arXiv 2004.04906): a BERT for questions, and one for passages."""

from dataclasses import replace

from models.config.blueprint import Blueprint
from models.config.json_config import JsonConfig
from models.families import bert


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of either; a vector is the state of the first token, without a projection."""
    raw.only("projection_dim", 0)
    prefixes = ("question_encoder.bert_model.", "ctx_encoder.bert_model.")
    return replace(bert.read(raw), prefixes=prefixes)
