"""POST /rerank and /v2/rerank: rank documents, as in TEI, Jina, Infinity, Voyage and Cohere."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NotRequired, Self

from fastapi import APIRouter
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell import doors
from embedwell.compute.multi_vectors import MultiVectors
from embedwell.compute.request_reader import RequestReader
from embedwell.compute.rerank_scores import CosineScores, ListwiseScores
from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest, reindexed
from embedwell.http.error_responses import COHERE, OPENAI
from embedwell.http.request_context import RequestContext
from embedwell.routes.cohere import (
    CohereMeta,
    CohereRanking,
    CohereRerankRequest,
    CohereUnits,
    response_meta,
)
from embedwell.routes.common.body import TextList
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.documents import (
    Documents,
    Flag,
    Ranks,
    document_contents,
    rank_objects,
    rank_texts,
)
from embedwell.routes.common.openapi_responses import route_responses
from embedwell.routes.common.options import PairBody
from embedwell.routes.common.request_inputs import ImageInput
from embedwell.routes.common.response_types import describe_inputs, token_usage
from embedwell.routes.common.router import RequestDep, api_router, with_traits
from embedwell.routes.common.scores import ACTIVATIONS, ranking, sigmoid
from embedwell.routes.common.server_state import ModelChoice, ModelRegistry
from embedwell.routes.jina import JinaRanking
from embedwell.routes.voyage import VoyageRanking
from embedwell.routes.weaviate import WeaviateRanking
from embedwell_models.outputs.names import DENSE, MULTI
from embedwell_models.read.inputs import InputOptions, InputRow, TextPair
from embedwell_models.vectors import Floats

_NOT_OF_VOYAGE = {"top_n", "raw_scores", "details"}
"""Fields that only clients of other APIs send."""


class PlainRerankRequest(PairBody):
    """Request body of /rerank with the fields of TEI, Jina and Infinity alone.

    - `documents`: texts, or objects with a text or an image, if the model has vectors of pages.
    - `raw_scores`: whether the scores of a reranker are logits. Default: false.
    - `return_text`, `return_documents`: whether the response repeats the texts. Default: only texts
      of `documents`, as Jina and vLLM do.
    - `details`: whether the response has the token count of each document, too. Default: false.
    - `query`: the question or search text.
    - `texts`: the texts to rank, in TEI's API. Give one of `texts` and `documents`.
    - `top_n`: return only so many of the best documents; 0 is all. Default: all.
    """

    wider = doors.RERANK_BODY

    input_fields = ("texts", "documents")

    query: str
    texts: TextList | None = None
    documents: Documents | None = None
    model: str | None = None
    raw_scores: bool = False
    return_text: bool = False
    return_documents: Flag | None = None
    top_n: NonNegativeInt | None = None
    details: bool = False

    @property
    def contents(self) -> Sequence[str | ImageInput]:
        """Return the documents; raises BadRequest unless either texts or documents is set."""
        if (self.texts is None) == (self.documents is None):
            raise BadRequest("give one of texts and documents", param="documents")
        return document_contents(self.documents or ()) if self.texts is None else self.texts

    @property
    def is_ambiguous(self) -> bool:
        """Whether Voyage's clients can have sent the request, without a field that tells so."""
        return self.texts is None and not self.model_fields_set & _NOT_OF_VOYAGE

    @property
    def repeats_documents(self) -> bool:
        """Whether the response repeats documents: as requested, or as Jina and vLLM do."""
        if self.return_documents is not None:
            return self.return_documents
        if self.texts is not None or self.wants_plain_documents:
            return False
        return all(isinstance(content, str) for content in self.contents)

    @property
    def wants_logits(self) -> bool:
        """Whether scores are logits."""
        return self.raw_scores

    @property
    def wants_plain_documents(self) -> bool:
        """Whether documents in the response are plain texts, as in Infinity's API.

        Infinity's clients send raw_scores in every request, Jina's and Cohere's clients never do.
        """
        return "raw_scores" in self.model_fields_set

    @property
    def max_ranks(self) -> int | None:
        """Number of the best documents to return; None and 0 return all."""
        return self.top_n

    def _truncation(self) -> InputOptions:
        # `documents` are truncated by default, `texts` only if the setting says so.
        options = super()._truncation()
        if self.truncate is not None or self.on_overflow is not None or self.texts is not None:
            return options
        return replace(options, truncate=True)

    def texts_to_repeat(self) -> list[str]:
        """Return the documents for the response; raises BadRequest for an image."""
        return texts_of(self.contents) if self.repeats_documents or self.return_text else []

    async def respond(self, context: RequestContext, service: "RerankService") -> "RerankResponse":
        """Respond to `texts` in TEI's format, and to `documents` in Jina's; raises ServiceError."""
        ranking = await service.rank(context, self)
        if self.texts is not None and not self.details:
            return _tei_ranks(ranking.ranks, ranking.texts if self.return_text else None)
        documents = ranking.texts if self.repeats_documents else None
        response: JinaRanking = {
            "id": context.id,
            "object": "rerank",
            "model": service.model.name,
            "usage": token_usage(context),
            "results": (
                rank_texts(ranking.ranks, documents)
                if self.wants_plain_documents
                else rank_objects(ranking.ranks, documents)
            ),
            "meta": _meta(ranking.rows, context, "1"),
        }
        if self.is_ambiguous:
            repeated = documents if self.return_documents else None
            response["data"] = rank_texts(ranking.ranks, repeated)
        if self.details:
            response["inputs"] = describe_inputs(ranking.rows)
        return response


@forbid_extra
class TEIRank(TypedDict):
    """Rank of a document in TEI's format.

    - `text`: text of the document; only if the request has `return_text`.
    - `score`: relevance to the query: higher is more relevant.
    """

    index: NonNegativeInt
    score: float
    text: NotRequired[str]


TEIRanks = list[TEIRank]
"""Ranks, best first."""


RerankResponse = TEIRanks | JinaRanking | VoyageRanking | WeaviateRanking


@dataclass(frozen=True)
class Ranking:
    """The documents of a request in its order, and their ranks.

    texts: those that the response may repeat. scores: of the documents, (B,).
    """

    rows: list[InputRow]
    texts: list[str]
    scores: Floats
    ranks: Ranks


class RerankService:
    """Scores documents by their relevance to a query, for every API.

    vectors: compares the vectors of a model that embeds or that ranks lists; None for other models.
    """

    def __init__(self, registry: ModelRegistry, model: ServedModel) -> None:
        self.model, self.vectors = model, _vector_scores(registry, model)

    @classmethod
    def choice(cls, registry: ModelRegistry) -> ModelChoice[Self]:
        """Create the service of each model; a model that was trained to rank has precedence."""
        return registry.choice(partial(cls, registry), "rerank", MULTI, DENSE)

    async def logits(
        self,
        context: RequestContext,
        query: str,
        documents: Sequence[str | ImageInput],
        options: InputOptions,
    ) -> tuple[list[InputRow], Floats]:
        """Return the tokenized pairs with their logits (B,).

        A model that embeds returns the tokenized documents with their MaxSim or cosine. Raises
        BadRequest if the model neither reranks nor has vectors that can be compared, and for images
        if it has no vectors of pages.
        """
        texts = [document for document in documents if isinstance(document, str)]
        if len(texts) < len(documents):
            return await self._maxsim(context, query, documents, options)
        pairs = [TextPair(query, text) for text in texts]
        return await self.pair_logits(context, pairs, options)

    async def _maxsim(
        self,
        context: RequestContext,
        query: str,
        documents: Sequence[str | ImageInput],
        options: InputOptions,
    ) -> tuple[list[InputRow], Floats]:
        tokens = self.model.multi_vectors
        if self.vectors is not tokens:
            raise BadRequest("this model ranks texts only; send no images", code="not_offered")
        context.memory.grow_by_numbers(len(documents))
        options = _for_vectors(options, self.model.reader)
        options = replace(options, max_length=options.max_length or options.max_pair)
        with reindexed([0, *range(len(documents))]):
            queries, ranked = await tokens.query_document_vectors(
                context, [query], documents, options
            )
        pairs = [(queries.vectors[0], vectors) for vectors in ranked.vectors]
        return ranked.rows, await tokens.maxsim_scores(pairs)

    async def pair_logits(
        self, context: RequestContext, pairs: Sequence[TextPair], options: InputOptions
    ) -> tuple[list[InputRow], Floats]:
        """Like `logits`, for any pairs."""
        context.memory.grow_by_numbers(len(pairs))
        if self.vectors is not None:
            if not isinstance(self.vectors, ListwiseScores):
                options = _for_vectors(options, self.model.reader)
            return await self.vectors.scores(context, pairs, options)
        classifier = self.model.pipeline.classifier
        if not classifier.reranks:
            raise BadRequest(
                f"this model has {len(classifier.labels)} labels, but a reranker has one; "
                "send the request to /predict",
                code="not_offered",
            )
        rows = await self.model.pairs.read(context, pairs, options)
        return rows, (await self.model.pipeline.logits(context, rows))[:, 0]

    def scores(self, logits: Floats) -> Floats:
        """Return scores from 0 to 1, or unchanged MaxSim or cosines: (B,)."""
        return sigmoid(logits) if self.vectors is None else logits

    def activated(self, logits: Floats) -> Floats:
        """Like `scores`, but with the function in the files of a reranker: (B,)."""
        if self.vectors is not None:
            return logits
        return ACTIVATIONS[self.model.pipeline.classifier.activation](logits)

    async def rank(self, context: RequestContext, body: PlainRerankRequest) -> Ranking:
        """Rank the documents of a request to /rerank; raises ServiceError."""
        contents, options = body.contents, body.input_options()
        texts = body.texts_to_repeat()
        rows, logits = await self.logits(context, body.query, contents, options)
        scores = logits if body.wants_logits else self.scores(logits)
        return Ranking(rows, texts, scores, _ranks(logits, scores, body.max_ranks))

    async def rerank_as_cohere(
        self, context: RequestContext, body: CohereRerankRequest
    ) -> CohereRanking:
        """Respond to /v2/rerank."""
        options = InputOptions(
            truncate=True, max_length=body.max_tokens_per_doc, instruction=body.instruction
        )
        contents = document_contents(body.documents)
        texts = texts_of(contents) if body.return_documents else []
        rows, logits = await self.logits(context, body.query, contents, options)
        ranks = _ranks(logits, self.scores(logits), body.top_n)
        return {
            "id": context.id,
            "results": rank_objects(ranks, texts if body.return_documents else None),
            "meta": _meta(rows, context, "2"),
        }


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes /rerank and /v2/rerank, and other paths of /rerank for more clients."""
    models = RerankService.choice(registry)
    routes = api_router("rerank")
    openai = with_traits(routes, error_format=OPENAI)

    @routes.post("/rerank", summary="Rank documents by relevance to a query")
    @openai.post("/v1/rerank", include_in_schema=False)
    @openai.post("/v1/reranking", include_in_schema=False)
    async def rerank(context: RequestDep, body: PlainRerankRequest) -> RerankResponse:
        return await body.respond(context, models.choose(body.model))

    @with_traits(routes, error_format=COHERE).post(
        "/v2/rerank",
        summary="Rank documents (Cohere)",
        responses=route_responses(error_format=COHERE),
    )
    async def cohere_rerank(context: RequestDep, body: CohereRerankRequest) -> CohereRanking:
        return await models.choose(body.model).rerank_as_cohere(context, body)

    return routes


def texts_of(documents: Sequence[str | ImageInput]) -> list[str]:
    """Return the documents to repeat in a response; raises BadRequest for an image."""
    texts = [document for document in documents if isinstance(document, str)]
    if len(texts) < len(documents):
        raise BadRequest(
            "a response repeats no images; leave return_documents out", param="return_documents"
        )
    return texts


def _vector_scores(
    registry: ModelRegistry, model: ServedModel
) -> MultiVectors | CosineScores | ListwiseScores | None:
    if model.description.listwise is not None:
        return ListwiseScores(model)
    if model.description.classifier is not None:
        return None
    if model.multi_vectors.offered:
        return model.multi_vectors
    return CosineScores(*registry.retrieval_pair(model))


def _for_vectors(options: InputOptions, reader: RequestReader) -> InputOptions:
    """Return the options for a model that compares vectors; raises BadRequest."""
    if options.windows:
        raise BadRequest(
            "on_overflow must be error, start or end for a model that embeds", param="on_overflow"
        )
    if options.instruction is not None:
        raise BadRequest(
            "this model supports no instruction; leave it out",
            code="not_offered",
            param="instruction",
        )
    if options.max_pair is None:
        return options
    max_pair = min(options.max_pair, reader.max_length)
    reader.check_max_length(max_pair, "truncate_prompt_tokens")
    return replace(options, max_pair=max_pair)


def _meta(rows: Sequence[InputRow], context: RequestContext, version: str) -> CohereMeta:
    """Build Cohere's `meta` of a ranking, whose unit is a search."""
    meta = response_meta(rows, context, version)
    units: CohereUnits = {**meta["billed_units"], "search_units": 1}
    return {**meta, "billed_units": units}


def _ranks(logits: Floats, scores: Floats, top_n: int | None) -> Ranks:
    """Rank by the logits, as large ones have equal scores."""
    return [(index, float(scores[index])) for index in ranking(logits, top_n or None)]


def _tei_ranks(ranks: Ranks, texts: Sequence[str] | None) -> TEIRanks:
    if texts is None:
        return [{"index": index, "score": score} for index, score in ranks]
    return [{"index": index, "score": score, "text": texts[index]} for index, score in ranks]
