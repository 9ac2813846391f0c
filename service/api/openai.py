"""POST /v1/embeddings and GET /v1/models: OpenAI's embeddings API, exactly."""

import time
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import PositiveInt

from service.api.body import Body, Inputs, accepts, answer, batch, call_of, parse
from service.api.embed import Encoding, express, shorten
from service.errors import UnknownModel
from service.pipeline import Pipeline
from service.reader import Reading


class EmbeddingsRequest(Body):
    """OpenAI's request. user is accepted, as there, and not used."""

    input: Inputs
    model: str | None = None
    encoding_format: Encoding = "float"
    dimensions: PositiveInt | None = None
    user: str | None = None


def router(pipeline: Pipeline, model: str) -> APIRouter:
    """The routes of this module."""
    routes = APIRouter(tags=["OpenAI"])
    card = {"id": model, "object": "model", "created": int(time.time()), "owned_by": "self-hosted"}

    @routes.post("/embeddings", include_in_schema=False)
    @routes.post(
        "/v1/embeddings", summary="OpenAI embeddings", openapi_extra=accepts(EmbeddingsRequest)
    )
    async def embeddings(request: Request) -> Response:
        body = await parse(request, EmbeddingsRequest)
        check(body.model or model, model)
        call = call_of(request)
        _, vectors = await pipeline.embed(call, batch(body.input), Reading())
        values = express(shorten(vectors, body.dimensions, True), body.encoding_format)
        return answer(_listing(values, model, call.tokens))

    @routes.get("/v1/models", summary="The served model")
    async def models() -> Response:
        return answer({"object": "list", "data": [card]})

    @routes.get("/v1/models/{name:path}", summary="One model")
    async def one(name: str) -> Response:
        check(name, model)
        return answer(card)

    return routes


def check(asked: str, served: str) -> None:
    """Raises UnknownModel: a vector of another model than asked for helps nobody."""
    if asked != served:
        raise UnknownModel(f"no model {asked!r}; this server has {served!r}", param="model")


def _listing(values: Any, model: str, tokens: int) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": index, "embedding": value}
        for index, value in enumerate(values)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}
