"""POST /v1/ranking: rank passages, as NVIDIA's NIM for reranking does."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.http.error_responses import OPENAI
from embedwell.routes.common.body import FAIL_FAST, Body, examples
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.options import OVERFLOW, PairBody, TruncateWord
from embedwell.routes.common.response_types import OpenAIUsage, token_usage
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.scores import ranking
from embedwell.routes.common.server_state import ModelRegistry
from embedwell.routes.rerank import RerankService
from embedwell_models.read.inputs import InputOptions


class NIMText(Body):
    """NIM's object for a query or a passage.

    - `text`: the text.
    """

    text: str


class RankingRequest(Body):
    """Request body of /v1/ranking.

    - `truncate`: side at which a passage that is too long is cut; `NONE` refuses it. Default:
      `END`.
    - `top_k`: return only so many of the best passages. Default: all.
    - `query`: the question or search text.
    - `passages`: the texts to rank.
    """

    model_config = examples(
        {
            "model": "reranker",
            "query": {"text": "What is rust?"},
            "passages": [{"text": "A fungus."}, {"text": "Iron oxide."}],
            "truncate": "END",
        }
    )

    input_fields = ("passages",)

    query: NIMText
    passages: Annotated[list[NIMText], FAIL_FAST]
    model: str | None = None
    truncate: TruncateWord | None = None
    top_k: PositiveInt | None = None

    def input_options(self) -> InputOptions:
        """Build the tokenization options."""
        return PairBody(on_overflow=OVERFLOW[self.truncate or "END"]).input_options()


@forbid_extra
class NIMRank(TypedDict):
    """Rank of a passage.

    - `index`: position of the passage in the request's list, from 0.
    - `logit`: relevance to the query: higher is more relevant.
    """

    index: NonNegativeInt
    logit: float


@forbid_extra
class NIMRanking(TypedDict):
    """Response of /v1/ranking: the passages, best first.

    `logit` is that of a reranker, or the cosine or MaxSim of a model that embeds.

    - `rankings`: the passages, best first.
    """

    rankings: list[NIMRank]
    usage: OpenAIUsage


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /v1/ranking, which NVIDIA's hosted API has under another path."""
    models = RerankService.choice(registry)
    routes = api_router("rerank", error_format=OPENAI)

    @routes.post("/v1/ranking", summary="Rank passages (NVIDIA NIM)")
    @routes.post("/v1/retrieval/nvidia/reranking", include_in_schema=False)
    async def rank_passages(context: RequestDep, body: RankingRequest) -> NIMRanking:
        texts, options = [passage.text for passage in body.passages], body.input_options()
        reranker = models.choose(body.model)
        _, logits = await reranker.logits(context, body.query.text, texts, options)
        order = ranking(logits, body.top_k)
        return {
            "rankings": [{"index": index, "logit": float(logits[index])} for index in order],
            "usage": token_usage(context),
        }

    return routes
