"""POST /v1/embeddings and GET /v1/models: OpenAI's embeddings API."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Response

from models.sources import DEFAULT
from models.vectors import Floats, finish
from service.api.answer import answer
from service.api.body import batch
from service.api.dialects import EmbeddingsRequest
from service.api.embed import Embedding, EmbedRequest
from service.api.operation import Operation
from service.api.output import convert, express
from service.api.responses import ENGINE, PLAIN, Responses
from service.api.served import check, role_of
from service.api.shapes.common import OpenAIError
from service.api.shapes.vendors import Model, Models, OpenAIAnswer
from service.api.tokens import Tokens
from service.call import Call

_TAG = "OpenAI"


def operation(embedding: Embedding, tokens: Tokens) -> Operation[EmbeddingsRequest]:
    """The operation of this module."""
    model = embedding.model

    async def embeddings(call: Call, body: EmbeddingsRequest) -> Any:
        asked = body.native(role_of(body.model or model, model))
        if body.return_multivector:
            found = await tokens.last(call, batch(asked.inputs), asked.reading())
            return _listing("embeddings", _each(found, asked), model, call.tokens)
        cut = "dimensions" if body.output_dimension is None else "output_dimension"
        _, vectors = await embedding.vectors(call, asked, cut)
        values = convert(vectors, asked.output_dtype)
        return _listing("embedding", express(values, asked.encoding_format), model, call.tokens)

    return Operation(
        "/v1/embeddings",
        EmbeddingsRequest,
        embeddings,
        "OpenAI embeddings",
        _TAG,
        Responses(OpenAIAnswer, (*ENGINE, 404), OpenAIError),
        aliases=("/embeddings",),
        envelope=envelope,
    )


def router(model: str, created: int) -> APIRouter:
    """The other routes of this module. created: what is told of the model, seconds since 1970."""
    routes = APIRouter(tags=[_TAG])
    card = {"id": model, "object": "model", "created": created, "owned_by": "self-hosted"}

    listed, described = (
        Responses(Models, PLAIN).describe(),
        Responses(Model, (*PLAIN, 404)).describe(),
    )
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    parameters = [{**name, "example": DEFAULT}]

    @routes.get("/v1/models", summary="The served model", openapi_extra=listed)
    async def models() -> Response:
        return answer({"object": "list", "data": [card]})

    @routes.get(
        "/v1/models/{name:path}",
        summary="One model",
        openapi_extra={**described, "parameters": parameters},
    )
    async def one(name: str) -> Response:
        check(name, model)
        return answer(card)

    return routes


def envelope(content: dict[str, Any]) -> dict[str, Any]:
    """An error as OpenAI's client reads it, and as Voyage's does, which wants the detail."""
    return {"error": content, "detail": content["message"]}


def _each(found: Sequence[Floats], asked: EmbedRequest) -> list[Any]:
    """The vectors of the tokens of each input."""
    finished = (finish(vectors, None, asked.normalize) for vectors in found)
    return [
        express(convert(vectors, asked.output_dtype), asked.encoding_format) for vectors in finished
    ]


def _listing(name: str, values: Any, model: str, tokens: int) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": index, name: value} for index, value in enumerate(values)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}
