"""POST /v1/embed: version 1 of Cohere's embeddings API, which older clients use."""

from typing import Annotated, Any

from fastapi import APIRouter

from embedwell.api.body import FAIL_FAST, Body, examples, input_list
from embedwell.api.cohere import (
    ROLES,
    EmbeddingTypes,
    InputType,
    embeddings_by_type,
    response_meta,
)
from embedwell.api.dense_vector_service import DenseVectorService
from embedwell.api.embed_request import EmbedRequest
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openai_fields import OVERFLOW, TruncateWord
from embedwell.api.openapi_responses import route_responses
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.common import CohereError
from embedwell.api.schemas.vendors import CohereAnswer, CohereFloats


class CohereV1Request(Body):
    """Request body of /v1/embed.

    - `embedding_types`: without it, the embeddings in the response are a list of floats.
    - `images`: must be null.
    """

    model_config = examples(
        {"model": "all-MiniLM-L6-v2", "input_type": "search_query", "texts": ["Hello, world"]},
        {"texts": ["Hello, world"], "embedding_types": ["int8"], "truncate": "START"},
    )

    texts: Annotated[list[str], FAIL_FAST]
    model: str | None = None
    input_type: InputType | None = None
    embedding_types: EmbeddingTypes | None = None
    truncate: TruncateWord | None = None
    images: None = None

    def to_embed_request(self) -> EmbedRequest:
        """Convert to a request of /embed."""
        return EmbedRequest(
            inputs=input_list(self.texts),
            on_overflow=OVERFLOW[self.truncate or "END"],
            input_type=ROLES.get(self.input_type),
        )


def router(models: ModelChoice[DenseVectorService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("Cohere")

    @routes.post(
        "/v1/embed",
        summary="Create embeddings (Cohere, version 1)",
        response_model=CohereFloats | CohereAnswer,
        responses=route_responses(error_schema=CohereError),
    )
    async def cohere_v1(context: Context, body: CohereV1Request) -> Any:
        embedding = models.choose(body.model or None)
        rows, vectors = await embedding.vectors(context, body.to_embed_request())
        types = body.embedding_types
        return {
            "id": context.id,
            "embeddings": embeddings_by_type(vectors, types) if types else vectors,
            "texts": body.texts,
            "meta": response_meta(rows, context, "1"),
            "response_type": "embeddings_by_type" if types else "embeddings_floats",
        }

    return routes
