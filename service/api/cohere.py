"""POST /v2/embed: Cohere's embeddings API, for texts."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field, PositiveInt

from models.vectors import Floats
from service.api.array_format import convert_vectors, encode_rows
from service.api.body import FAIL_FAST, Body, examples
from service.api.embed import EmbeddingService, EmbedRequest
from service.api.openai_fields import OVERFLOW, TruncateWord
from service.api.openapi_responses import ENGINE_ERRORS, route_responses
from service.api.router import Context, api_router
from service.api.schemas.common import CohereError
from service.api.schemas.vendors import CohereAnswer
from service.api.served_names import ModelChoice
from service.errors import BadRequest
from service.inputs.options import TextOrIds
from service.inputs.prompts import Role
from service.inputs.tokenized_input import TokenizedInput
from service.request.request_context import RequestContext

EmbeddingType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]
EmbeddingTypes = Annotated[list[EmbeddingType], Field(min_length=1), FAIL_FAST]
InputType = Literal["search_document", "search_query", "classification", "clustering"]

ROLES: dict[InputType | None, Role] = {
    "search_query": "query",
    "search_document": "document",
    "classification": "classification",
    "clustering": "clustering",
}


class CohereContent(Body):
    """The only part of an input: a text."""

    type: Literal["text"]
    text: str


class CohereInput(Body):
    """A text in Cohere's format for texts and images."""

    content: Annotated[list[CohereContent], Field(min_length=1, max_length=1)]


class CohereRequest(Body):
    """Either texts, or inputs of one text each. images, max_tokens and priority must be null."""

    model_config = examples(
        {
            "model": "all-MiniLM-L6-v2",
            "input_type": "clustering",
            "inputs": [{"content": [{"type": "text", "text": "Hello, world"}]}],
            "truncate": "NONE",
        },
        model="all-MiniLM-L6-v2",
        input_type="search_query",
        texts=["Hello, world"],
        embedding_types=["float", "ubinary"],
    )

    model: str
    input_type: InputType
    texts: Annotated[list[str], FAIL_FAST] | None = None
    inputs: Annotated[list[CohereInput], FAIL_FAST] | None = None
    embedding_types: EmbeddingTypes | None = None
    output_dimension: PositiveInt | None = None
    truncate: TruncateWord | None = None
    images: None = None
    max_tokens: None = None
    priority: None = None

    @property
    def content(self) -> list[TextOrIds]:
        """Return the texts; raises BadRequest unless either texts or inputs are set."""
        if (self.texts is None) == (self.inputs is None):
            raise BadRequest("give either texts or inputs", param="texts")
        if self.texts is not None:
            return [*self.texts]
        return [item.content[0].text for item in self.inputs or ()]

    def to_embed_request(self) -> EmbedRequest:
        """Convert to a request of /embed."""
        return EmbedRequest(
            inputs=self.content,
            on_overflow=OVERFLOW[self.truncate or "END"],
            input_type=ROLES[self.input_type],
            dimensions=self.output_dimension,
        )


def router(models: ModelChoice[EmbeddingService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("Cohere")

    @routes.post(
        "/v2/embed",
        summary="Cohere embeddings",
        response_model=CohereAnswer,
        responses=route_responses((*ENGINE_ERRORS, 404), CohereError),
    )
    async def cohere(context: Context, body: CohereRequest) -> Any:
        embedding, request = models.choose(body.model), body.to_embed_request()
        rows, vectors = await embedding.vectors(context, request, "output_dimension")
        return {
            "id": context.id,
            "embeddings": embeddings_by_type(vectors, body.embedding_types or ["float"]),
            "texts": body.content,
            "meta": response_meta(rows, context, "2"),
            "response_type": "embeddings_by_type",
        }

    return routes


def embeddings_by_type(vectors: Floats, types: Sequence[EmbeddingType]) -> dict[EmbeddingType, Any]:
    """Encode the vectors in each of the types."""
    return {embedding_type: _encode(vectors, embedding_type) for embedding_type in types}


def _encode(vectors: Floats, embedding_type: EmbeddingType) -> Any:
    if embedding_type == "base64":
        return encode_rows(vectors, "base64")
    return convert_vectors(vectors, "float32" if embedding_type == "float" else embedding_type)


def response_meta(
    rows: Sequence[TokenizedInput], context: RequestContext, version: str
) -> dict[str, Any]:
    """Build Cohere's `meta`: the API version, the token count, a warning for each truncation."""
    meta: dict[str, Any] = {
        "api_version": {"version": version},
        "billed_units": {"input_tokens": context.tokens},
    }
    warnings = [
        f"input {index} was truncated to {len(row.ids)} tokens"
        for index, row in enumerate(rows)
        if row.dropped
    ]
    return {**meta, "warnings": warnings} if warnings else meta
