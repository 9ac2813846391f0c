"""POST /models/NAME/pipeline/feature-extraction and similar paths of Hugging Face's hosted API."""

from fastapi import APIRouter, Request, Response

from embedwell.routes.common.dense_vectors import EmbedRequest
from embedwell.routes.common.model_registry import ModelRegistry
from embedwell.routes.common.response_body import fastapi_response
from embedwell.routes.common.router import read_body, request_context
from embedwell.routes.embed import EmbedService
from embedwell_models.outputs.names import DENSE, MULTI

_PATHS = ("/models/{}/pipeline/feature-extraction", "/pipeline/feature-extraction/{}", "/models/{}")
_NAMES = ("{name}", "{organisation}/{name}")


def router(registry: ModelRegistry) -> APIRouter:
    """Create routes like /embed for clients that put the model's name in the path."""
    models = registry.choice(EmbedService.of, DENSE, MULTI)
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
