"""The body of /rerank with the fields of Voyage, vLLM, Weaviate and others, in any mixture."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import examples
from embedwell.routes.common.documents import rank_texts
from embedwell.routes.common.options import cutting
from embedwell.routes.common.vllm_fields import VLLMFields
from embedwell.routes.rerank import (
    PlainRerankRequest,
    RerankResponse,
    RerankService,
    texts_of,
)
from embedwell.routes.weaviate import WeaviateRanking
from embedwell_models.read.inputs import InputOptions
from embedwell_models.vectors import Floats


class RerankRequest(VLLMFields, PlainRerankRequest):
    """Request body of /rerank. The response to `texts` has TEI's format, to `documents` Jina's.

    The score of a reranker is from 0 to 1, that of a dense model or of a reranker of lists is the
    cosine of query and document, and that of a multi-vector model is MaxSim.

    - `max_tokens_per_doc`: read at most so many tokens of a document, at least 1. Default: as many
      as the model reads.
    - `top_k`: Voyage's name of `top_n`.
    - `truncation`: Voyage's name for `truncate`.
    - `use_activation`, `activation`: vLLM's fields: whether scores are from 0 to 1; false for
      logits. Default: true.
    - `property`: sent by Weaviate: the response then has its format, and the request's order.
    - `rank_fields`: sent by Cohere's older clients; must be null.
    - `max_chunks_per_doc`, `overlap_tokens`, `return_len`: ignored, as no document is read in
      chunks.
    - `kwargs`: sent by Xinference's client, always empty; ignored.
    """

    model_config = examples(
        {"query": "What is rust?", "documents": ["A fungus.", "Iron oxide."], "top_n": 1},
        {"query": "What is rust?", "texts": ["A fungus.", "Iron oxide."], "return_text": True},
    )

    wider = ""
    voyage_fields = frozenset({"top_k", "truncation"})

    max_tokens_per_doc: PositiveInt | None = None
    top_k: NonNegativeInt | None = None
    truncation: bool | None = None
    use_activation: bool | None = None
    activation: bool | None = None
    weaviate_property: str | None = Field(None, alias="property")
    rank_fields: None = None
    max_chunks_per_doc: int | None = None
    overlap_tokens: int | None = None
    return_len: bool | None = None
    kwargs: Literal["{}"] | None = None

    @property
    def is_voyage(self) -> bool:
        """Whether the request has a field that only Voyage's API has."""
        return not self.model_fields_set.isdisjoint(self.voyage_fields)

    @property
    def repeats_documents(self) -> bool:
        if self.return_documents is None and self.weaviate_property is not None:
            return False
        return super().repeats_documents

    @property
    def wants_logits(self) -> bool:
        return self.raw_scores or self.use_activation is False or self.activation is False

    @property
    def wants_plain_documents(self) -> bool:
        return self.is_voyage or super().wants_plain_documents

    @property
    def max_ranks(self) -> int | None:
        return self.top_n or self.top_k

    def input_options(self) -> InputOptions:
        options = super().input_options()
        if self.max_tokens_per_doc is None:
            return options
        return replace(cutting(options, "max_tokens_per_doc"), max_length=self.max_tokens_per_doc)

    def _truncation(self) -> InputOptions:
        options = super()._truncation()
        others = self.truncate is not None or self.on_overflow is not None or self.texts is not None
        if others or self.truncation is None:
            return options
        return replace(options, truncate=self.truncation)

    def texts_to_repeat(self) -> list[str]:
        if self.weaviate_property is None:
            return super().texts_to_repeat()
        return texts_of(self.contents)

    async def respond(self, context: RequestContext, service: RerankService) -> RerankResponse:
        """Respond in the format of Weaviate or Voyage if the request has a field of its own."""
        if self.weaviate_property is not None:
            ranking = await service.rank(context, self)
            return _document_scores(self.query, ranking.texts, ranking.scores)
        if not self.is_voyage or (self.texts is not None and not self.details):
            return await super().respond(context, service)
        ranking = await service.rank(context, self)
        return {
            "object": "list",
            "data": rank_texts(ranking.ranks, ranking.texts if self.repeats_documents else None),
            "model": service.model.name,
            "usage": {"total_tokens": context.tokens},
        }


def _document_scores(query: str, documents: Sequence[str], scores: Floats) -> WeaviateRanking:
    """Build the response of /rerank for Weaviate. scores: (B,)."""
    pairs = zip(documents, scores.tolist(), strict=True)
    return {
        "query": query,
        "scores": [{"document": document, "score": score} for document, score in pairs],
        "property": None,
        "score": None,
    }
