"""POST /models/NAME/pipeline/feature-extraction and its like: Hugging Face's hosted models."""

from fastapi import APIRouter, Request, Response

from service.api.embed import Embedding, EmbedRequest
from service.api.fastapi_response import large_response
from service.api.router import read_body, request_context

_PATHS = ("/models/{}/pipeline/feature-extraction", "/pipeline/feature-extraction/{}", "/models/{}")
_NAMES = ("{name}", "{organisation}/{name}")


def router(embedding: Embedding) -> APIRouter:
    """The routes of this module: /embed for clients that have the model's name in the path."""
    routes = APIRouter(include_in_schema=False)

    async def feature_extraction(request: Request) -> Response:
        embedding.names.check("/".join(request.path_params.values()))
        context = request_context(request)
        body = await read_body(EmbedRequest, context, request.receive)
        return await large_response(context, await embedding.embed(context, body))

    for path in _PATHS:
        for name in _NAMES:
            routes.post(path.format(name))(feature_extraction)
    return routes
