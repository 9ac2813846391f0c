"""POST /v1/embed: Cohere's first embeddings API, which clients ask that know nothing of /v2."""

from typing import Annotated, Any

from fastapi import APIRouter

from service.api.body import FIRST, Body, batch, example
from service.api.cohere import ROLES, InputType, Kinds, by_type, meta
from service.api.embed import Embedding, EmbedRequest
from service.api.openai_request import OVERFLOW, Cut
from service.api.openapi_responses import ENGINE, documented
from service.api.router import Context, api_router
from service.api.schemas.common import CohereError
from service.api.schemas.vendors import CohereAnswer, CohereFloats


class CohereV1Request(Body):
    """Without embedding_types, the answer is floats alone. images may be null."""

    model_config = example(
        {"texts": ["Hello, world"], "embedding_types": ["int8"], "truncate": "START"},
        model="all-MiniLM-L6-v2",
        input_type="search_query",
        texts=["Hello, world"],
    )

    texts: Annotated[list[str], FIRST]
    model: str | None = None
    input_type: InputType | None = None
    embedding_types: Kinds | None = None
    truncate: Cut | None = None
    images: None = None

    def native(self) -> EmbedRequest:
        """The same in our words."""
        return EmbedRequest(
            inputs=batch(self.texts),
            on_overflow=OVERFLOW[self.truncate or "END"],
            input_type=ROLES.get(self.input_type),
        )


def router(embedding: Embedding) -> APIRouter:
    """The routes of this module."""
    routes = api_router("Cohere")

    @routes.post(
        "/v1/embed",
        summary="Cohere embeddings, version 1",
        response_model=CohereFloats | CohereAnswer,
        responses=documented((*ENGINE, 404), CohereError),
    )
    async def cohere_v1(context: Context, body: CohereV1Request) -> Any:
        embedding.names.check(body.model or embedding.names.first)
        rows, vectors = await embedding.vectors(context, body.native())
        kinds = body.embedding_types
        return {
            "id": context.id,
            "embeddings": by_type(vectors, kinds) if kinds else vectors,
            "texts": body.texts,
            "meta": meta(rows, context, "1"),
            "response_type": "embeddings_by_type" if kinds else "embeddings_floats",
        }

    return routes
