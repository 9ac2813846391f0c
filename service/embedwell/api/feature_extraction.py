"""POST /models/NAME/pipeline/feature-extraction and similar paths of Hugging Face's hosted API."""

from fastapi import APIRouter, Request, Response

from embedwell.api.dense_vector_service import DenseVectorService
from embedwell.api.embed_request import EmbedRequest
from embedwell.api.fastapi_response import fastapi_response
from embedwell.api.model_choice import ModelChoice
from embedwell.api.router import read_body, request_context

_PATHS = ("/models/{}/pipeline/feature-extraction", "/pipeline/feature-extraction/{}", "/models/{}")
_NAMES = ("{name}", "{organisation}/{name}")


def router(models: ModelChoice[DenseVectorService]) -> APIRouter:
    """Create routes of /embed for clients that put the model's name in the path."""
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
