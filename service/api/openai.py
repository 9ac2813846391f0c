"""POST /v1/embeddings and GET /v1/models: OpenAI's embeddings API, and Infinity's list."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path

from models.hub.sources import DEFAULT
from models.vectors import Floats, finish
from service.api.array_format import convert, express
from service.api.body import batch
from service.api.embed import Embedding, EmbedRequest
from service.api.openai_request import EmbeddingsRequest
from service.api.openapi_responses import ENGINE, PLAIN, documented
from service.api.router import Context, api_router
from service.api.schemas.common import OpenAIError
from service.api.schemas.vendors import InfinityModels, Model, Models, OpenAIAnswer
from service.api.tokens import Tokens
from service.request.request_context import RequestContext

_NAME = Path(examples=[DEFAULT])


def router(
    embedding: Embedding, tokens: Tokens, created: int, queued: Callable[[], int]
) -> APIRouter:
    """The routes of this module.

    created: what is told of the model, seconds since 1970. queued: how many tokens wait.
    """
    routes, names = api_router("OpenAI"), embedding.names
    without_body = documented(PLAIN, OpenAIError)

    @routes.post(
        "/v1/embeddings",
        summary="OpenAI embeddings",
        response_model=OpenAIAnswer,
        responses=documented((*ENGINE, 404), OpenAIError),
    )
    @routes.post("/embeddings", include_in_schema=False)
    async def embeddings(context: Context, body: EmbeddingsRequest) -> Any:
        asked = body.native(names.role_of(body.model or names.first))
        length = body.length(embedding.pipeline.reader.tokenizer)
        if body.return_multivector:
            reading = asked.reading().with_max_length(length)
            found = await tokens.last(context, batch(asked.inputs), reading)
            return _listing("embeddings", _each(found, asked), names.first, context)
        cut = "dimensions" if body.output_dimension is None else "output_dimension"
        _, vectors = await embedding.vectors(context, asked, cut, length)
        values = convert(vectors, asked.output_dtype)
        shown = express(values, asked.encoding_format)
        return _listing("embedding", shown, names.first, context)

    def card(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": created, "owned_by": "self-hosted"}

    @routes.get(
        "/v1/models",
        summary="The served model, under each of its names",
        response_model=Models,
        responses=without_body,
    )
    async def models() -> Any:
        return {"object": "list", "data": [*map(card, names.listed)]}

    @routes.get(
        "/models",
        summary="The names of the served model",
        response_model=InfinityModels,
        responses=without_body,
    )
    async def infinity_models() -> Any:
        shared = {"object": "model", "created": created, "stats": {"queued_tokens": queued()}}
        data = [{"id": name, **shared, "capabilities": ["embed"]} for name in names.listed]
        return {"object": "list", "data": data}

    @routes.get(
        "/v1/models/{name:path}",
        summary="One model",
        response_model=Model,
        responses=documented((*PLAIN, 404), OpenAIError),
    )
    async def model(name: Annotated[str, _NAME]) -> Any:
        names.check(name)
        return card(name)

    return routes


def _each(found: Sequence[Floats], asked: EmbedRequest) -> list[Any]:
    """The vectors of the tokens of each input."""
    finished = (finish(vectors, None, asked.normalize) for vectors in found)
    return [
        express(convert(vectors, asked.output_dtype), asked.encoding_format) for vectors in finished
    ]


def _listing(name: str, values: Any, model: str, context: RequestContext) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": index, name: value} for index, value in enumerate(values)
    ]
    usage = {"prompt_tokens": context.tokens, "total_tokens": context.tokens}
    return {"id": context.id, "object": "list", "data": data, "model": model, "usage": usage}
