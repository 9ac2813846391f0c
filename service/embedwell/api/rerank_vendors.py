"""POST /v2/rerank and /score: reranking in the formats of Cohere and vLLM."""

from typing import Any

from fastapi import APIRouter

from embedwell.api.body import Texts, examples, text_list
from embedwell.api.cohere import response_meta
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import route_responses
from embedwell.api.rerank import RerankService, ranked_results
from embedwell.api.rerank_request import CohereRerankRequest, PairBody, document_texts
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.common import CohereError
from embedwell.api.schemas.rerank import CohereRanking, Scores
from embedwell.api.scores import ranking, sigmoid
from embedwell.api.token_usage import token_usage
from embedwell.errors import BadRequest
from embedwell.inputs.options import InputOptions
from embedwell.inputs.text_pair import TextPair


class ScoreRequest(PairBody):
    """Request body of /score: one text and a list of texts, or two lists of equal length.

    - `queries`, `documents`: other names of `text_1` and `text_2`.
    """

    model_config = examples(
        {"text_1": "What is rust?", "text_2": ["A fungus.", "Iron oxide."]},
        {"queries": ["What is rust?", "What is gold?"], "documents": ["A fungus.", "A metal."]},
    )

    text_1: Texts | None = None
    text_2: Texts | None = None
    queries: Texts | None = None
    documents: Texts | None = None
    model: str | None = None

    @property
    def pairs(self) -> list[TextPair]:
        """Return the pairs; raises BadRequest for missing texts or unequal numbers of texts."""
        first = _one_of(self.text_1, self.queries, "text_1", "queries")
        second = _one_of(self.text_2, self.documents, "text_2", "documents")
        if len(first) == 1:
            first *= len(second)
        if len(first) != len(second):
            raise BadRequest(
                f"text_1 has {len(first)} texts, but text_2 has {len(second)}; give one or "
                "equally many",
                param="text_1",
            )
        return [TextPair(a, b) for a, b in zip(first, second, strict=True)]


def router(models: ModelChoice[RerankService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("rerank")

    @routes.post(
        "/v2/rerank",
        summary="Rank documents (Cohere)",
        response_model=CohereRanking,
        responses=route_responses(error_schema=CohereError),
    )
    async def cohere_rerank(context: Context, body: CohereRerankRequest) -> Any:
        service = models.choose(body.model)
        options = InputOptions(
            truncate=True, max_length=body.max_tokens_per_doc, instruction=body.instruction
        )
        texts = document_texts(body.documents)
        rows, logits = await service.logits(context, body.query, texts, options)
        documents = [{"text": text} for text in texts] if body.return_documents else None
        return {
            "id": context.id,
            "results": ranked_results(
                service.scores(logits), ranking(logits, body.top_n), documents
            ),
            "meta": response_meta(rows, context, "2"),
        }

    @routes.post(
        "/score",
        summary="Score text pairs (vLLM)",
        response_model=Scores,
        responses=route_responses(),
    )
    @routes.post("/v1/score", include_in_schema=False)
    async def score(context: Context, body: ScoreRequest) -> Any:
        service = models.choose(body.model)
        _, logits = await service.pair_logits(context, body.pairs, body.input_options())
        identity = (
            service.multi_vectors.offered or service.pipeline.classifier.activation == "identity"
        )
        scores = (logits if identity else sigmoid(logits)).tolist()
        return {
            "id": context.id,
            "object": "list",
            "model": service.name,
            "data": [
                {"index": index, "object": "score", "score": value}
                for index, value in enumerate(scores)
            ],
            "usage": token_usage(context),
        }

    return routes


def _one_of(
    texts: str | list[str] | None, others: str | list[str] | None, name: str, other_name: str
) -> list[str]:
    given = [value for value in (texts, others) if value is not None]
    if len(given) != 1:
        raise BadRequest(f"give either {name} or {other_name}, not both or neither", param=name)
    return text_list(given[0])
