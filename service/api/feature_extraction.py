"""POST /models/NAME/pipeline/feature-extraction and similar paths of Hugging Face's hosted API."""

from fastapi import APIRouter, Request, Response

from service.api.embed_request import EmbedRequest
from service.api.embedding_service import EmbeddingService
from service.api.fastapi_response import fastapi_response
from service.api.model_choice import ModelChoice
from service.api.router import read_body, request_context

_PATHS = ("/models/{}/pipeline/feature-extraction", "/pipeline/feature-extraction/{}", "/models/{}")
_NAMES = ("{name}", "{organisation}/{name}")


def router(models: ModelChoice[EmbeddingService]) -> APIRouter:
    """Create the routes: /embed for clients that put the model's name in the path."""
    routes = APIRouter(include_in_schema=False)

    async def feature_extraction(request: Request) -> Response:
        context = request_context(request)
        name = "/".join(request.path_params.values())
        models.choose(name)  # before the body is read
        body = await read_body(EmbedRequest, context, request.receive)
        embedding = models.choose(name, body.task)
        return await fastapi_response(context, await embedding.embed(context, body))

    for path in _PATHS:
        for name in _NAMES:
            routes.post(path.format(name))(feature_extraction)
    return routes
