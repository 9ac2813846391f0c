"""POST /v2/embed: Cohere's embeddings API, for texts and images."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field, PositiveInt

from embedwell.api.array_format import convert_vectors, encode_rows
from embedwell.api.body import FAIL_FAST, Body, examples
from embedwell.api.dense_vector_service import DenseVectorService
from embedwell.api.embed_request import EmbedRequest
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openai_fields import OVERFLOW, TruncateWord
from embedwell.api.openapi_responses import route_responses
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.common import CohereError
from embedwell.api.schemas.vendors import CohereAnswer
from embedwell.errors import BadRequest
from embedwell.inputs.image_input import ImageInput
from embedwell.inputs.options import Input
from embedwell.inputs.prompts import Role
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.request.request_context import RequestContext
from embedwell_models.vectors import Floats

EmbeddingType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]
EmbeddingTypes = Annotated[list[EmbeddingType], Field(min_length=1), FAIL_FAST]
InputType = Literal["search_document", "search_query", "classification", "clustering"]

ROLES: dict[str | None, Role] = {
    "search_query": "query",
    "search_document": "document",
    "classification": "classification",
    "clustering": "clustering",
}


class CohereText(Body):
    """A text in Cohere's format for texts and images."""

    type: Literal["text"]
    text: str


class CohereImageUrl(Body):
    """An image as a data URL."""

    url: str


class CohereImage(Body):
    """An image in Cohere's format for texts and images."""

    type: Literal["image_url"]
    image_url: CohereImageUrl


CohereContent = Annotated[CohereText | CohereImage, Field(discriminator="type")]


class CohereInput(Body):
    """A text or an image; no model here embeds both into one vector."""

    content: Annotated[list[CohereContent], Field(min_length=1, max_length=1)]

    @property
    def value(self) -> str | ImageInput:
        """Return the text or the image."""
        part = self.content[0]
        return part.text if isinstance(part, CohereText) else ImageInput(image=part.image_url.url)


class CohereRequest(Body):
    """Request body of /v2/embed: texts, images, or inputs of one text or image each.

    - `images`: data URLs.
    - `max_tokens`, `priority`: must be null.
    """

    model_config = examples(
        {
            "model": "all-MiniLM-L6-v2",
            "input_type": "search_query",
            "texts": ["Hello, world"],
            "embedding_types": ["float", "ubinary"],
        },
        {
            "model": "all-MiniLM-L6-v2",
            "input_type": "clustering",
            "inputs": [{"content": [{"type": "text", "text": "Hello, world"}]}],
            "truncate": "NONE",
        },
    )

    model: str
    input_type: InputType | Literal["image"]
    texts: Annotated[list[str], FAIL_FAST] | None = None
    inputs: Annotated[list[CohereInput], FAIL_FAST] | None = None
    embedding_types: EmbeddingTypes | None = None
    output_dimension: PositiveInt | None = None
    truncate: TruncateWord | None = None
    images: Annotated[list[str], FAIL_FAST] | None = None
    max_tokens: None = None
    priority: None = None

    @property
    def content(self) -> list[Input]:
        """Return the texts and images; raises BadRequest unless exactly one of the three is set."""
        if [self.texts, self.images, self.inputs].count(None) != 2:
            raise BadRequest("give exactly one of texts, images and inputs", param="texts")
        if self.texts is not None:
            return [*self.texts]
        if self.images is not None:
            return [ImageInput(image=url) for url in self.images]
        return [item.value for item in self.inputs or ()]

    def to_embed_request(self) -> EmbedRequest:
        """Convert to a request of /embed."""
        return EmbedRequest(
            inputs=self.content,
            on_overflow=OVERFLOW[self.truncate or "END"],
            input_type=ROLES.get(self.input_type),
            dimensions=self.output_dimension,
        )


def router(models: ModelChoice[DenseVectorService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("Cohere")

    @routes.post(
        "/v2/embed",
        summary="Create embeddings (Cohere)",
        response_model=CohereAnswer,
        responses=route_responses(error_schema=CohereError),
    )
    async def cohere(context: Context, body: CohereRequest) -> Any:
        embedding, request = models.choose(body.model), body.to_embed_request()
        rows, vectors = await embedding.vectors(context, request, "output_dimension")
        return {
            "id": context.id,
            "embeddings": embeddings_by_type(vectors, body.embedding_types or ["float"]),
            "texts": [item for item in body.content if isinstance(item, str)],
            "meta": response_meta(rows, context, "2"),
            "response_type": "embeddings_by_type",
        }

    return routes


def embeddings_by_type(vectors: Floats, types: Sequence[EmbeddingType]) -> dict[EmbeddingType, Any]:
    """Encode the vectors in each requested type."""
    return {embedding_type: _encode(vectors, embedding_type) for embedding_type in types}


def _encode(vectors: Floats, embedding_type: EmbeddingType) -> Any:
    if embedding_type == "base64":
        return encode_rows(vectors, "base64")
    return convert_vectors(vectors, "float32" if embedding_type == "float" else embedding_type)


def response_meta(
    rows: Sequence[TokenizedInput], context: RequestContext, version: str
) -> dict[str, Any]:
    """Build Cohere's `meta`: API version, token count, and a warning for each truncated input."""
    meta: dict[str, Any] = {
        "api_version": {"version": version},
        "billed_units": {"input_tokens": context.tokens},
    }
    warnings = [
        f"input {index} was truncated to {row.tokens} tokens"
        for index, row in enumerate(rows)
        if row.dropped
    ]
    return {**meta, "warnings": warnings} if warnings else meta
