"""POST /v2/embed: Cohere's embeddings API, for texts."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field, PositiveInt

from models.vectors import Floats
from service.api.array_format import convert, express
from service.api.body import FIRST, Body, example
from service.api.embed import Embedding, EmbedRequest
from service.api.openai_request import OVERFLOW, Cut
from service.api.openapi_responses import ENGINE, documented
from service.api.router import Context, api_router
from service.api.schemas.common import CohereError
from service.api.schemas.vendors import CohereAnswer
from service.errors import BadRequest
from service.inputs.options import Text
from service.inputs.prompts import Role
from service.inputs.tokenized_input import TokenizedInput
from service.request.request_context import RequestContext

Kind = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]
Kinds = Annotated[list[Kind], Field(min_length=1), FIRST]
InputType = Literal["search_document", "search_query", "classification", "clustering"]

ROLES: dict[InputType | None, Role] = {
    "search_query": "query",
    "search_document": "document",
    "classification": "classification",
    "clustering": "clustering",
}


class CohereContent(Body):
    """The one part of an input."""

    type: Literal["text"]
    text: str


class CohereInput(Body):
    """A text in the shape that has room for images."""

    content: Annotated[list[CohereContent], Field(min_length=1, max_length=1)]


class CohereRequest(Body):
    """Either texts, or inputs of one text each. images, max_tokens and priority may be null."""

    model_config = example(
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
    texts: Annotated[list[str], FIRST] | None = None
    inputs: Annotated[list[CohereInput], FIRST] | None = None
    embedding_types: Kinds | None = None
    output_dimension: PositiveInt | None = None
    truncate: Cut | None = None
    images: None = None
    max_tokens: None = None
    priority: None = None

    @property
    def content(self) -> list[Text]:
        """The texts; raises BadRequest."""
        if (self.texts is None) == (self.inputs is None):
            raise BadRequest("give either texts or inputs", param="texts")
        if self.texts is not None:
            return [*self.texts]
        return [each.content[0].text for each in self.inputs or ()]

    def native(self) -> EmbedRequest:
        """The same in our words."""
        return EmbedRequest(
            inputs=self.content,
            on_overflow=OVERFLOW[self.truncate or "END"],
            input_type=ROLES[self.input_type],
            dimensions=self.output_dimension,
        )


def router(embedding: Embedding) -> APIRouter:
    """The routes of this module."""
    routes = api_router("Cohere")

    @routes.post(
        "/v2/embed",
        summary="Cohere embeddings",
        response_model=CohereAnswer,
        responses=documented((*ENGINE, 404), CohereError),
    )
    async def cohere(context: Context, body: CohereRequest) -> Any:
        embedding.names.check(body.model)
        rows, vectors = await embedding.vectors(context, body.native(), "output_dimension")
        return {
            "id": context.id,
            "embeddings": by_type(vectors, body.embedding_types or ["float"]),
            "texts": body.content,
            "meta": meta(rows, context, "2"),
            "response_type": "embeddings_by_type",
        }

    return routes


def by_type(vectors: Floats, kinds: Sequence[Kind]) -> dict[Kind, Any]:
    """The vectors in each of the types."""
    return {kind: _express(vectors, kind) for kind in kinds}


def _express(vectors: Floats, kind: Kind) -> Any:
    if kind == "base64":
        return express(vectors, "base64")
    return convert(vectors, "float32" if kind == "float" else kind)


def meta(rows: Sequence[TokenizedInput], context: RequestContext, version: str) -> dict[str, Any]:
    """What the request took, and a warning for each input that was cut."""
    told: dict[str, Any] = {
        "api_version": {"version": version},
        "billed_units": {"input_tokens": context.tokens},
    }
    cut = [
        f"input {index} was truncated to {len(row.ids)} tokens"
        for index, row in enumerate(rows)
        if row.dropped
    ]
    return {**told, "warnings": cut} if cut else told
