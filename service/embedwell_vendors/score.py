"""POST /score: scores of text pairs, in vLLM's format."""

from typing import Literal

from fastapi import APIRouter
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.errors import BadRequest
from embedwell.http.error_responses import OPENAI
from embedwell.routes.common.body import Texts, TrueByDefault, examples, text_list
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.options import PairBody
from embedwell.routes.common.response_types import OpenAIUsage, token_usage
from embedwell.routes.common.router import RequestDep, api_router, with_traits
from embedwell.routes.common.server_state import ModelRegistry
from embedwell.routes.common.vllm_fields import VLLMFields
from embedwell.routes.rerank import RerankService
from embedwell_models.read.inputs import TextPair


class ScoreRequest(PairBody, VLLMFields):
    """Request body of /score: one text and a list of texts, or two lists of equal length.

    A dense model scores by the cosine of a query (`text_1`) and a document (`text_2`).

    - `queries`, `data_1`: vLLM's other names of `text_1`.
    - `documents`, `items`, `data_2`: vLLM's other names of `text_2`.
    - `use_activation`, `activation`: whether scores are from 0 to 1; false for logits. Default:
      true.
    - `text_1`: one text, or a list of texts.
    - `text_2`: one text, or a list of texts, each of which is scored with the text of `text_1` at
      its place.
    """

    model_config = examples(
        {"text_1": "What is rust?", "text_2": ["A fungus.", "Iron oxide."]},
        {"queries": ["What is rust?", "What is gold?"], "documents": ["A fungus.", "A metal."]},
    )

    text_1: Texts | None = None
    text_2: Texts | None = None
    input_fields = ("documents",)

    queries: Texts | None = None
    documents: Texts | None = None
    data_1: Texts | None = None
    data_2: Texts | None = None
    items: Texts | None = None
    model: str | None = None
    use_activation: TrueByDefault = True
    activation: TrueByDefault = True

    @property
    def pairs(self) -> list[TextPair]:
        """Return the pairs; raises BadRequest for missing texts or unequal numbers of texts."""
        first = self._only_texts("text_1", "queries", "data_1")
        second = self._only_texts("text_2", "documents", "items", "data_2")
        if len(first) == 1:
            first *= len(second)
        if len(first) != len(second):
            raise BadRequest(
                f"text_1 has {len(first)} texts, but text_2 has {len(second)}; give one or "
                "equally many",
                param="text_1",
            )
        return [TextPair(a, b) for a, b in zip(first, second, strict=True)]

    def _only_texts(self, *names: str) -> list[str]:
        values = [value for value in (getattr(self, name) for name in names) if value is not None]
        if len(values) != 1:
            raise BadRequest(f"give one of {', '.join(names[:-1])} and {names[-1]}", param=names[0])
        return text_list(values[0])


@forbid_extra
class Score(TypedDict):
    """Score of a pair.

    - `index`: position of the pair, from 0.
    - `object`: always `score`.
    - `score`: how well the second text answers the first: higher is better.
    """

    index: NonNegativeInt
    object: Literal["score"]
    score: float


@forbid_extra
class ScoreResponse(TypedDict):
    """Response of /score.

    - `object`: always `list`.
    - `data`: the score of each pair, in the request's order.
    """

    id: str
    object: Literal["list"]
    model: str
    data: list[Score]
    usage: OpenAIUsage


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /score, which vLLM also has at /v1/score."""
    models = RerankService.choice(registry)
    routes = api_router("rerank")

    @routes.post("/score", summary="Score text pairs (vLLM)")
    @with_traits(routes, error_format=OPENAI).post("/v1/score", include_in_schema=False)
    async def score(context: RequestDep, body: ScoreRequest) -> ScoreResponse:
        service = models.choose(body.model)
        _, logits = await service.pair_logits(context, body.pairs, body.input_options())
        activated = body.use_activation and body.activation
        scores: list[float] = (service.activated(logits) if activated else logits).tolist()
        return {
            "id": context.id,
            "object": "list",
            "model": service.model.name,
            "data": [
                {"index": index, "object": "score", "score": value}
                for index, value in enumerate(scores)
            ],
            "usage": token_usage(context),
        }

    return routes
