"""Jina Reranker v3 (Wang et al. 2025, arXiv 2509.25085): a Qwen3 that reads a list of documents."""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import qwen
from embedwell_models.families.family import DocsRow, Family, Variant

_CLASS = "JinaForRanking"


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Jina Reranker v3, without the layers after the states of markers.

    Version 3.5 has windows, and cuts texts at other lengths, of which its files say nothing.
    """
    options.require("use_sliding_window", None, False)
    spec = qwen.of_qwen3(options, causal=True)
    return replace(spec, unused=(*spec.unused, "projector.*"))


FAMILIES = (
    Family(
        model_types=(Variant.by_class("qwen3", _CLASS),),
        name="jina_reranker_v3",
        read=read,
        reads_lists=True,
        tokenizer_override="nothing",
        replaced_code=(_CLASS,),
        row=DocsRow(
            "Jina Reranker v3",
            "jina-reranker-v3",
            positions="rotary",
            layers="as Qwen 3; [ranks a list](rerank.md#lists)",
        ),
    ),
)
