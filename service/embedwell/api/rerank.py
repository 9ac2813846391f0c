"""POST /rerank and /v1/rerank: rank documents, as in TEI, Jina, Infinity and Voyage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import route_responses
from embedwell.api.rerank_request import RerankRequest
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.rerank import JinaRanking, TEIRanks, VoyageRanking
from embedwell.api.scores import ranking, sigmoid
from embedwell.api.token_usage import token_usage
from embedwell.errors import BadRequest
from embedwell.inference.multi_vectors import MultiVectors
from embedwell.inference.pipeline import Pipeline
from embedwell.inputs.options import InputOptions
from embedwell.inputs.text_pair import TextPair
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.request.request_context import RequestContext
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class RerankService:
    """Scores documents by their relevance to a query, for every API.

    name: the model's name in responses.
    """

    pipeline: Pipeline
    name: str
    multi_vectors: MultiVectors

    async def logits(
        self,
        context: RequestContext,
        query: str,
        documents: Sequence[str],
        options: InputOptions,
    ) -> tuple[list[TokenizedInput], Floats]:
        """Return the tokenized pairs with their logits (B,).

        A multi-vector model returns the tokenized documents with their MaxSim. Raises BadRequest if
        the model is neither a reranker nor a multi-vector model.
        """
        pairs = [TextPair(query, document) for document in documents]
        return await self.pair_logits(context, pairs, options)

    async def pair_logits(
        self, context: RequestContext, pairs: Sequence[TextPair], options: InputOptions
    ) -> tuple[list[TokenizedInput], Floats]:
        """Like `logits`, for any pairs."""
        context.memory.grow_by_numbers(len(pairs))
        if self.multi_vectors.offered:
            if options.windows:
                raise BadRequest(
                    "on_overflow must be error, start or end for a multi-vector model",
                    param="on_overflow",
                )
            return await self.multi_vectors.scores(context, pairs, options)
        classifier = self.pipeline.classifier
        if not classifier.reranks:
            raise BadRequest(
                f"this model has {len(classifier.labels)} labels, but a reranker has one; "
                "send the request to /predict",
                code="not_offered",
            )
        rows, logits = await self.pipeline.score(context, pairs, options)
        return rows, logits[:, 0]

    def scores(self, logits: Floats) -> Floats:
        """Return scores from 0 to 1, or unchanged MaxSim: (B,)."""
        return logits if self.multi_vectors.offered else sigmoid(logits)

    async def rerank(self, context: RequestContext, body: RerankRequest) -> Any:
        """Respond to /rerank."""
        contents, options = body.contents, body.input_options()
        rows, logits = await self.logits(context, body.query, contents, options)
        scores = logits if body.raw_scores else self.scores(logits)
        order = ranking(logits, body.top_n or body.top_k)
        if body.texts is not None and not body.details:
            texts = contents if body.return_text else None
            return ranked_results(scores, order, texts, ("score", "text"))
        documents: list[Any] | None = contents if body.return_documents else None
        if documents is not None and not body.wants_plain_documents:
            documents = [{"text": text} for text in documents]
        if body.is_voyage:
            return self._voyage(context, scores, order, documents)
        response = {
            "id": context.id,
            "object": "rerank",
            "model": self.name,
            "usage": token_usage(context),
            "results": ranked_results(scores, order, documents),
        }
        if body.details:
            response["inputs"] = [row.as_json() for row in rows]
        return response

    def _voyage(
        self,
        context: RequestContext,
        scores: Floats,
        order: Sequence[int],
        documents: Sequence[str] | None,
    ) -> Any:
        return {
            "object": "list",
            "data": ranked_results(scores, order, documents),
            "model": self.name,
            "usage": {"total_tokens": context.tokens},
        }


def router(models: ModelChoice[RerankService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("rerank")

    @routes.post(
        "/rerank",
        summary="Rank documents by relevance to a query",
        response_model=TEIRanks | JinaRanking | VoyageRanking,
        responses=route_responses(),
    )
    @routes.post("/v1/rerank", include_in_schema=False)
    async def rerank(context: Context, body: RerankRequest) -> Any:
        return await models.choose(body.model).rerank(context, body)

    return routes


def ranked_results(
    scores: Floats,
    order: Sequence[int],
    documents: Sequence[Any] | None,
    names: tuple[str, str] = ("relevance_score", "document"),
) -> list[dict[str, Any]]:
    """Return the index and score of the best documents, each with its entry of `documents`.

    names: field names of the score and of the document.
    """
    score, document = names
    results: list[dict[str, Any]] = [
        {"index": index, score: float(scores[index])} for index in order
    ]
    if documents is not None:
        for result in results:
            result[document] = documents[result["index"]]
    return results
