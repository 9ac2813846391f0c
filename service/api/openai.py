"""POST /v1/embeddings and GET /v1/models: OpenAI's embeddings API, and Infinity's list."""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, Response

from models.hub.sources import DEFAULT
from models.vectors import Floats, finish
from service.api.answer import answer
from service.api.body import batch
from service.api.dialects import EmbeddingsRequest
from service.api.embed import Embedding, EmbedRequest
from service.api.operation import Operation
from service.api.output import convert, express
from service.api.responses import ENGINE, PLAIN, Responses
from service.api.served import ServedNames
from service.api.shapes.common import OpenAIError
from service.api.shapes.vendors import InfinityModels, Model, Models, OpenAIAnswer
from service.api.tokens import Tokens
from service.request.request_context import RequestContext

_TAG = "OpenAI"


def operation(embedding: Embedding, tokens: Tokens) -> Operation[EmbeddingsRequest]:
    """The operation of this module."""
    names = embedding.names

    async def embeddings(context: RequestContext, body: EmbeddingsRequest) -> Any:
        asked = body.native(names.role_of(body.model or names.first))
        length = body.length(embedding.pipeline.reader.tokenizer)
        if body.return_multivector:
            reading = asked.reading().within(length)
            found = await tokens.last(context, batch(asked.inputs), reading)
            return _listing("embeddings", _each(found, asked), names.first, context)
        cut = "dimensions" if body.output_dimension is None else "output_dimension"
        _, vectors = await embedding.vectors(context, asked, cut, length)
        values = convert(vectors, asked.output_dtype)
        shown = express(values, asked.encoding_format)
        return _listing("embedding", shown, names.first, context)

    return Operation(
        "/v1/embeddings",
        EmbeddingsRequest,
        embeddings,
        "OpenAI embeddings",
        _TAG,
        Responses(OpenAIAnswer, (*ENGINE, 404), OpenAIError),
        aliases=("/embeddings",),
    )


def router(names: ServedNames, created: int, queued: Callable[[], int]) -> APIRouter:
    """The other routes of this module.

    created: what is told of the model, seconds since 1970. queued: how many tokens wait.
    """
    routes = APIRouter(tags=[_TAG])

    def card(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": created, "owned_by": "self-hosted"}

    listed, described = (
        Responses(Models, PLAIN, OpenAIError).describe(),
        Responses(Model, (*PLAIN, 404), OpenAIError).describe(),
    )
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    parameters = [{**name, "example": DEFAULT}]

    @routes.get(
        "/v1/models", summary="The served model, under each of its names", openapi_extra=listed
    )
    async def models() -> Response:
        return answer({"object": "list", "data": [*map(card, names.listed)]})

    infinity = Responses(InfinityModels, PLAIN, OpenAIError).describe()

    @routes.get("/models", summary="The names of the served model", openapi_extra=infinity)
    async def infinity_models() -> Response:
        shared = {"object": "model", "created": created, "stats": {"queued_tokens": queued()}}
        data = [{"id": name, **shared, "capabilities": ["embed"]} for name in names.listed]
        return answer({"object": "list", "data": data})

    @routes.get(
        "/v1/models/{name:path}",
        summary="One model",
        openapi_extra={**described, "parameters": parameters},
    )
    async def one(name: str) -> Response:
        names.check(name)
        return answer(card(name))

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
