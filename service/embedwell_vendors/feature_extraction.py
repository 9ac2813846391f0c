"""POST /models/NAME/pipeline/feature-extraction and similar paths of Hugging Face's hosted API."""

from collections.abc import Iterator

from fastapi import APIRouter, Request, Response

from embedwell.routes.common.dense_vectors import EmbedRequest
from embedwell.routes.common.response_body import fastapi_response
from embedwell.routes.common.router import DirectRoute, errors_completed, read_body, request_context
from embedwell.routes.common.server_state import ModelRegistry
from embedwell.routes.embed import EmbedService
from embedwell.routes.similarity import SimilarityService
from embedwell.routes.similarity_bodies import SimilarityRequest
from embedwell_models.outputs.names import DENSE, MULTI

_NAMES = ("{name}", "{organisation}/{name}")
_HOSTED = "/hf-inference"
"""Prefix of the paths at router.huggingface.co."""


def router(registry: ModelRegistry) -> APIRouter:
    """Create routes like /embed and /similarity for clients that put the model in the path."""
    models = registry.choice(EmbedService, DENSE, MULTI)
    comparing = registry.choice(SimilarityService, DENSE, MULTI)
    routes = APIRouter(include_in_schema=False, route_class=DirectRoute)

    async def feature_extraction(request: Request) -> Response:
        context, name = request_context(request), _name(request)
        models.choose(name)  # before the body is read
        body = await read_body(EmbedRequest, context, request.receive)
        body = body.with_parameters()
        embedding = models.choose(name, body.task)
        with errors_completed(body):
            content = await embedding.embed(context, body)
        return await fastapi_response(context, content)

    async def sentence_similarity(request: Request) -> Response:
        context, name = request_context(request), _name(request)
        comparing.choose(name)
        body = await read_body(SimilarityRequest, context, request.receive)
        service = comparing.choose(name, body.requested_task)
        with errors_completed(body):
            content = await service.similarity(context, body)
        return await fastapi_response(context, content)

    for path in _paths("feature-extraction"):
        routes.post(path)(feature_extraction)
    for path in _paths("sentence-similarity"):
        routes.post(path)(sentence_similarity)
    for name in _NAMES:
        routes.post(f"/models/{name}")(feature_extraction)
        routes.post(f"{_HOSTED}/models/{name}")(feature_extraction)
    return routes


def _paths(task: str) -> Iterator[str]:
    """Return the paths of a task, which come before those of a model alone."""
    for name in _NAMES:
        yield f"/models/{name}/pipeline/{task}"
        yield f"{_HOSTED}/models/{name}/pipeline/{task}"
        yield f"/pipeline/{task}/{name}"


def _name(request: Request) -> str:
    return "/".join(request.path_params.values())
