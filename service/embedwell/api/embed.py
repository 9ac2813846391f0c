"""POST /embed: sentence vectors, in TEI's request and response formats with more options."""

from typing import Any

from fastapi import APIRouter

from embedwell.api.dense_vector_service import DenseVectorService
from embedwell.api.embed_request import EmbedRequest
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import route_responses
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.embed import EmbedResponse


def router(models: ModelChoice[DenseVectorService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("embeddings")

    @routes.post(
        "/embed",
        summary="Embed texts or images",
        response_model=EmbedResponse,
        responses=route_responses(binary=True),
    )
    @routes.post("/", include_in_schema=False)
    async def embed(context: Context, body: EmbedRequest) -> Any:
        return await models.choose(body.model, body.task).embed(context, body)

    return routes
