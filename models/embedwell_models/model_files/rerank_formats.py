"""Published formats of rerankers that are language models, which the prompts wing has.

These models read a query with one document, or with a list of documents, as one sequence; a decoder
reads the query alone.
"""

import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from embedwell_models.config.model_options import RERANK_FORMATS
from embedwell_models.tokenizer.formats import DecoderFormat, PairFormat, SeparateFormat
from embedwell_models.tokenizer.lists import ListwiseFormat

_FORMATS = "embedwell_prompts.rerank_formats:FORMATS"
_LISTS = "embedwell_prompts.rerank_formats:JINA"
_READ_DECODER = "embedwell_prompts.rerank_formats:read_decoder_format"


class RerankFormat(Protocol):
    """A published format of pairs.

    answers: next tokens for a relevant and an irrelevant document. The score is the difference of
    their logits, or the logit of the first answer if there is no second. Empty for models with a
    head.
    """

    @property
    def answers(self) -> tuple[str, ...]: ...

    def pair_format(self) -> PairFormat | SeparateFormat:
        """Return the segments and slots of the text, or its parts."""


def published(name: str) -> RerankFormat | None:
    """Return a format by its name; None for another choice."""
    if name not in RERANK_FORMATS:
        return None
    formats: Mapping[str, RerankFormat] = pkgutil.resolve_name(_FORMATS)
    return formats[name]


def list_format() -> ListwiseFormat:
    """Return the format of jina-reranker-v3."""
    list_format: ListwiseFormat = pkgutil.resolve_name(_LISTS)
    return list_format


def read_decoder_format(encoder: Path) -> DecoderFormat:
    """Read the format of a model whose encoder reads documents, and whose decoder reads queries.

    Raises ModelError for an option that is not known.
    """
    decoder_format: DecoderFormat = pkgutil.resolve_name(_READ_DECODER)(encoder)
    return decoder_format
