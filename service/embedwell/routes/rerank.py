"""POST /rerank and /v2/rerank: rank documents, as in TEI, Jina, Infinity, Voyage and Cohere."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Self

from fastapi import APIRouter

from embedwell.errors import BadRequest, reindexed
from embedwell.http.error_responses import COHERE, OPENAI
from embedwell.http.request_context import RequestContext
from embedwell.inference.multi_vectors import MultiVectors
from embedwell.inference.request_reader import RequestReader
from embedwell.inference.rerank_scores import CosineScores, ListwiseScores
from embedwell.inference.served_model import ServedModel
from embedwell.routes.cohere import CohereMeta, CohereUnits, response_meta
from embedwell.routes.common.model_registry import ModelChoice, ModelRegistry
from embedwell.routes.common.openapi_responses import route_responses
from embedwell.routes.common.request_inputs import ImageInput
from embedwell.routes.common.response_types import describe_inputs, token_usage
from embedwell.routes.common.router import RequestDep, api_router, with_traits
from embedwell.routes.common.scores import ACTIVATIONS, ranking, sigmoid
from embedwell.routes.rerank_bodies import (
    CohereRanking,
    CohereRerankRequest,
    JinaRanking,
    PlainRanked,
    Ranked,
    RerankRequest,
    RerankResponse,
    TEIRanks,
    document_contents,
)
from embedwell.routes.weaviate import document_scores
from embedwell_models.output_names import DENSE, MULTI
from embedwell_models.read.inputs import InputOptions, InputRow, TextPair
from embedwell_models.vectors import Floats

_Ranks = Sequence[tuple[int, float]]
"""The index and the score of each document, best first."""


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
        rows, logits = await self.model.pipeline.score(context, pairs, options)
        return rows, logits[:, 0]

    def scores(self, logits: Floats) -> Floats:
        """Return scores from 0 to 1, or unchanged MaxSim or cosines: (B,)."""
        return sigmoid(logits) if self.vectors is None else logits

    def activated(self, logits: Floats) -> Floats:
        """Like `scores`, but with the function in the files of a reranker: (B,)."""
        if self.vectors is not None:
            return logits
        return ACTIVATIONS[self.model.pipeline.classifier.activation](logits)

    async def rerank(self, context: RequestContext, body: RerankRequest) -> RerankResponse:
        """Respond to /rerank."""
        contents, options = body.contents, body.input_options()
        is_weaviate = body.weaviate_property is not None
        repeats = body.repeats_documents
        texts = _texts(contents) if repeats or body.return_text or is_weaviate else []
        rows, logits = await self.logits(context, body.query, contents, options)
        scores = logits if body.wants_logits else self.scores(logits)
        if is_weaviate:
            return document_scores(body.query, texts, scores)
        ranks = _ranks(logits, scores, body.top_n or body.top_k)
        if body.texts is not None and not body.details:
            return _tei_ranks(ranks, texts if body.return_text else None)
        documents = texts if repeats else None
        if body.is_voyage:
            return {
                "object": "list",
                "data": _rank_texts(ranks, documents),
                "model": self.model.name,
                "usage": {"total_tokens": context.tokens},
            }
        response: JinaRanking = {
            "id": context.id,
            "object": "rerank",
            "model": self.model.name,
            "usage": token_usage(context),
            "results": (
                _rank_texts(ranks, documents)
                if body.wants_plain_documents
                else _rank_objects(ranks, documents)
            ),
            "meta": _meta(rows, context, "1"),
        }
        if body.is_ambiguous:
            response["data"] = _rank_texts(ranks, documents if body.return_documents else None)
        if body.details:
            response["inputs"] = describe_inputs(rows)
        return response

    async def rerank_as_cohere(
        self, context: RequestContext, body: CohereRerankRequest
    ) -> CohereRanking:
        """Respond to /v2/rerank."""
        options = InputOptions(
            truncate=True, max_length=body.max_tokens_per_doc, instruction=body.instruction
        )
        contents = document_contents(body.documents)
        texts = _texts(contents) if body.return_documents else []
        rows, logits = await self.logits(context, body.query, contents, options)
        ranks = _ranks(logits, self.scores(logits), body.top_n)
        return {
            "id": context.id,
            "results": _rank_objects(ranks, texts if body.return_documents else None),
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
    async def rerank(context: RequestDep, body: RerankRequest) -> RerankResponse:
        return await models.choose(body.model).rerank(context, body)

    for path in registry.root_path("rerank"):
        routes.post(path, include_in_schema=False)(rerank)

    @with_traits(routes, error_format=COHERE).post(
        "/v2/rerank",
        summary="Rank documents (Cohere)",
        responses=route_responses(error_format=COHERE),
    )
    async def cohere_rerank(context: RequestDep, body: CohereRerankRequest) -> CohereRanking:
        return await models.choose(body.model).rerank_as_cohere(context, body)

    return routes


def _texts(documents: Sequence[str | ImageInput]) -> list[str]:
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
        return ListwiseScores(model.pipeline, model.description.dim, model.comparisons)
    if model.description.classifier is not None:
        return None
    if model.multi_vectors.offered:
        return model.multi_vectors
    query, document = registry.retrieval_pair(model)
    pipelines, dim = (query.pipeline, document.pipeline), model.description.dim
    if query.adapter is None or document.adapter is None:
        return CosineScores(*pipelines, dim, model.comparisons)
    return CosineScores(*pipelines, dim, model.comparisons, query.adapter, document.adapter)


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


def _ranks(logits: Floats, scores: Floats, top_n: int | None) -> _Ranks:
    """Rank by the logits, as large ones have equal scores."""
    return [(index, float(scores[index])) for index in ranking(logits, top_n or None)]


def _tei_ranks(ranks: _Ranks, texts: Sequence[str] | None) -> TEIRanks:
    if texts is None:
        return [{"index": index, "score": score} for index, score in ranks]
    return [{"index": index, "score": score, "text": texts[index]} for index, score in ranks]


def _rank_objects(ranks: _Ranks, texts: Sequence[str] | None) -> list[Ranked]:
    if texts is None:
        return [{"index": index, "relevance_score": score} for index, score in ranks]
    return [
        {"index": index, "relevance_score": score, "document": {"text": texts[index]}}
        for index, score in ranks
    ]


def _rank_texts(ranks: _Ranks, texts: Sequence[str] | None) -> list[PlainRanked]:
    if texts is None:
        return [{"index": index, "relevance_score": score} for index, score in ranks]
    return [
        {"index": index, "relevance_score": score, "document": texts[index]}
        for index, score in ranks
    ]
