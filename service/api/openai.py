"""POST /v1/embeddings and GET /v1/models: OpenAI's embeddings API, exactly."""

import time
from typing import Any

from fastapi import APIRouter, Response
from pydantic import PositiveInt

from service.api.answer import answer
from service.api.body import Body, Inputs, batch, example
from service.api.operation import Operation
from service.api.output import Encoding, express
from service.call import Call
from service.dimensions import Dimensions
from service.errors import UnknownModel
from service.pipeline import Pipeline
from service.reader import Reading


class EmbeddingsRequest(Body):
    """OpenAI's request. user is accepted, as there, and not used."""

    model_config = example(input="Hello, world")

    input: Inputs
    model: str | None = None
    encoding_format: Encoding = "float"
    dimensions: PositiveInt | None = None
    user: str | None = None


_TAG = "OpenAI"


def operation(
    pipeline: Pipeline, model: str, dimensions: Dimensions
) -> Operation[EmbeddingsRequest]:
    """The operation of this module."""

    async def embeddings(call: Call, body: EmbeddingsRequest) -> Any:
        check(body.model or model, model)
        _, vectors = await pipeline.embed(call, batch(body.input), Reading())
        vectors = dimensions.cut(vectors, body.dimensions, True)
        values = express(vectors, body.encoding_format)
        return _listing(values, model, call.tokens)

    path, aliases = "/v1/embeddings", ("/embeddings",)
    return Operation(path, EmbeddingsRequest, embeddings, "OpenAI embeddings", _TAG, aliases)


def router(model: str) -> APIRouter:
    """The other routes of this module."""
    routes = APIRouter(tags=[_TAG])
    card = {"id": model, "object": "model", "created": int(time.time()), "owned_by": "self-hosted"}

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
