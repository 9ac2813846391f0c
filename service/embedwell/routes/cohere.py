"""POST /v2/embed and /v1/embed: Cohere's embeddings API, and its types of /v2/rerank."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

from fastapi import APIRouter
from pydantic import Field, NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.errors import BadRequest
from embedwell.http.error_responses import COHERE, OPENAI
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import FAIL_FAST, Body, TextList, examples, input_list
from embedwell.routes.common.common_fields import describe_fields, forbid_extra
from embedwell.routes.common.dense_vectors import DenseVectorService, EmbedRequest
from embedwell.routes.common.documents import Documents, Flag, Ranked
from embedwell.routes.common.openapi_responses import AUTH_ERRORS, route_responses
from embedwell.routes.common.options import OVERFLOW, Instruction, TruncateWord
from embedwell.routes.common.request_inputs import Content, ImageInput, Input, input_of_parts
from embedwell.routes.common.response_body import Matrix, as_lists, convert_vectors, encode_rows
from embedwell.routes.common.router import RequestDep, api_router, with_traits
from embedwell.routes.common.server_state import ModelRegistry
from embedwell_models.outputs.names import DENSE, MULTI
from embedwell_models.read.inputs import InputRow
from embedwell_models.read.prompts import Role
from embedwell_models.vectors import Floats

ROLES: dict[str | None, Role] = {
    "search_query": "query",
    "search_document": "document",
    "classification": "classification",
    "clustering": "clustering",
}

EmbeddingType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]
EmbeddingTypes = Annotated[list[EmbeddingType], Field(min_length=1), FAIL_FAST]
InputType = Literal["search_document", "search_query", "classification", "clustering"]


class CohereInput(Body):
    """An input of texts and images.

    - `content`: texts and images, which are read together and get one vector.
    """

    content: Content


class CohereRequest(Body):
    """Request body of /v2/embed: texts, images, or inputs of texts and images.

    - `images`: images as data URLs, each of which gets one vector.
    - `max_tokens`, `priority`: Cohere's; must be null.
    - `input_type`: the role of the inputs, whose prompt is used: `search_query` for queries,
      `search_document` for documents.
    - `texts`: the texts to embed. Give one of `texts`, `images` and `inputs`.
    - `inputs`: inputs of texts and images, each of which gets one vector.
    - `embedding_types`: types in which each vector is returned; those other than `float` and
      `base64` are quantised. Default: `float`.
    - `truncate`: side at which a text that is too long is cut; `NONE` refuses it. Default: `END`.
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

    input_fields = ("inputs", "texts", "images")

    model: str
    input_type: InputType | Literal["image"] | None = None
    texts: TextList | None = None
    inputs: Annotated[list[CohereInput], FAIL_FAST] | None = None
    embedding_types: EmbeddingTypes | None = None
    output_dimension: PositiveInt | None = None
    truncate: TruncateWord | None = None
    images: TextList | None = None
    max_tokens: None = None
    priority: None = None

    def content(self) -> list[Input]:
        """Return the texts and images; raises BadRequest unless exactly one of the three is set."""
        if [self.texts, self.images, self.inputs].count(None) != 2:
            raise BadRequest("give exactly one of texts, images and inputs", param="texts")
        if self.texts is not None:
            return [*self.texts]
        if self.images is not None:
            return [ImageInput(image=url) for url in self.images]
        return [input_of_parts(item.content) for item in self.inputs or ()]

    def to_embed_request(self) -> EmbedRequest:
        """Convert to a request of /embed; raises BadRequest."""
        return EmbedRequest(
            inputs=self.content(),
            on_overflow=OVERFLOW[self.truncate or "END"],
            input_type=ROLES.get(self.input_type),
            dimensions=self.output_dimension,
        )


class CohereV1Request(Body):
    """Request body of /v1/embed.

    - `embedding_types`: types in which each vector is returned, in an object of lists. Default: one
      list of `float` vectors.
    - `images`: must be null; send images to /v2/embed.
    - `texts`: the texts to embed.
    - `input_type`: the role of the texts, whose prompt is used: `search_query` for queries,
      `search_document` for documents.
    - `truncate`: side at which a text that is too long is cut; `NONE` refuses it. Default: `END`.
    """

    model_config = examples(
        {"model": "all-MiniLM-L6-v2", "input_type": "search_query", "texts": ["Hello, world"]},
        {"texts": ["Hello, world"], "embedding_types": ["int8"], "truncate": "START"},
    )

    input_fields = ("texts", "images")

    texts: TextList
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


@describe_fields
class CohereVectors(TypedDict):
    """Vectors in each requested type; the others are absent.

    - `float`: vectors of float32 numbers.
    - `int8`: vectors of integers from -127 to 127, scaled by each vector's largest component.
    - `uint8`: vectors of integers from 1 to 255: `int8` plus 128.
    - `binary`: one bit for each dimension, 8 in an integer from -128 to 127.
    - `ubinary`: one bit for each dimension, 8 in an integer from 0 to 255.
    - `base64`: the little-endian bytes of each float32 vector in base64.
    """

    float: NotRequired[Matrix]
    int8: NotRequired[list[list[int]]]
    uint8: NotRequired[list[list[int]]]
    binary: NotRequired[list[list[int]]]
    ubinary: NotRequired[list[list[int]]]
    base64: NotRequired[list[str]]


@forbid_extra
class CohereVersion(TypedDict):
    """Version of Cohere's API.

    - `version`: number of the version, as a text.
    """

    version: str


@forbid_extra
class CohereUnits(TypedDict):
    """Units of work that a request is counted as.

    - `search_units`: number of searches: 1 for a ranking; absent for embeddings.
    - `input_tokens`: number of tokens of the request.
    """

    input_tokens: NonNegativeInt
    search_units: NotRequired[NonNegativeInt]


@forbid_extra
class CohereTokenCount(TypedDict):
    """The tokens of a request.

    - `input_tokens`: number of tokens that were read.
    """

    input_tokens: NonNegativeInt


@forbid_extra
class CohereMeta(TypedDict):
    """Description of a request.

    - `api_version`: version of Cohere's API.
    - `billed_units`: numbers that Cohere would charge for; this server charges for nothing.
    - `tokens`: the number of tokens, as newer clients read it.
    - `warnings`: a sentence for each input that was truncated; absent if none was.
    """

    api_version: CohereVersion
    billed_units: CohereUnits
    tokens: CohereTokenCount
    warnings: NotRequired[list[str]]


@forbid_extra
class CohereFloats(TypedDict):
    """Response of /v1/embed to a request without `embedding_types`.

    - `texts`: the texts of the request, again.
    - `response_type`: tells clients that `embeddings` is a list of vectors.
    """

    id: str
    embeddings: Matrix
    texts: list[str]
    meta: CohereMeta
    response_type: Literal["embeddings_floats"]


@forbid_extra
class CohereResponse(TypedDict):
    """Response of /v2/embed, and of /v1/embed with `embedding_types`.

    - `embeddings`: the vectors in each requested type.
    - `texts`: the texts of the request, again; empty for images.
    - `response_type`: tells clients that `embeddings` has a list for each type.
    """

    id: str
    embeddings: CohereVectors
    texts: list[str]
    meta: CohereMeta
    response_type: Literal["embeddings_by_type"]


@forbid_extra
class CohereKey(TypedDict):
    """The key is accepted.

    - `valid`: always true, as a wrong key gets an error.
    """

    valid: Literal[True]


class CohereRerankRequest(Body):
    """Request body of /v2/rerank.

    - `max_tokens_per_doc`: read at most so many tokens of a document, at least 1. Default: as many
      as the model reads.
    - `priority`: Cohere's order of requests; must be null.
    - `instruction`: tells a reranker that is a language model what is relevant, in up to 8192
      characters. Default: the model's instruction.
    - `query`: the question or search text.
    - `documents`: the documents to rank: texts, or objects with a text or an image.
    - `top_n`: return only so many of the best documents; 0 is all. Default: all.
    - `return_documents`: whether the response repeats each document. Default: false.
    """

    model_config = examples(
        {
            "model": "reranker",
            "query": "What is rust?",
            "documents": ["A fungus.", "Iron oxide."],
            "top_n": 1,
        }
    )

    input_fields = ("documents",)

    model: str
    query: str
    documents: Documents
    top_n: NonNegativeInt | None = None
    max_tokens_per_doc: PositiveInt | None = None
    return_documents: Flag | None = None
    instruction: Instruction = None
    priority: None = None


@forbid_extra
class CohereRanking(TypedDict):
    """Response of /v2/rerank.

    - `results`: the documents, best first.
    """

    id: str
    results: list[Ranked]
    meta: CohereMeta


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes /v2/embed, /v1/embed for older clients, and /v1/check-api-key."""
    models = registry.choice(DenseVectorService, DENSE, MULTI)
    routes = api_router("Cohere", error_format=COHERE, base_path="/v2/")
    of_key = with_traits(routes, error_format=OPENAI, computes=False)

    @routes.post("/v2/embed", summary="Create embeddings (Cohere)")
    async def cohere(context: RequestDep, body: CohereRequest) -> CohereResponse:
        embedding = models.choose(body.model)
        request = body.to_embed_request()
        rows, vectors = await embedding.vectors(context, request, "output_dimension")
        texts = [item for item in input_list(request.inputs) if isinstance(item, str)]
        meta, types = response_meta(rows, context, "2"), body.embedding_types or ["float"]
        return _by_type(context, vectors, types, texts, meta)

    @of_key.post(
        "/v1/check-api-key",
        summary="Check the key (Cohere)",
        responses=route_responses(AUTH_ERRORS, OPENAI),
    )
    async def check_api_key() -> CohereKey:
        return {"valid": True}  # the key of each request is checked before its route

    @routes.post("/v1/embed", summary="Create embeddings (Cohere, version 1)")
    async def cohere_v1(
        context: RequestDep, body: CohereV1Request
    ) -> CohereFloats | CohereResponse:
        embedding = models.choose(body.model or None)
        rows, vectors = await embedding.vectors(context, body.to_embed_request())
        meta, types = response_meta(rows, context, "1"), body.embedding_types
        if types:
            return _by_type(context, vectors, types, body.texts, meta)
        return {
            "id": context.id,
            "embeddings": as_lists(vectors),
            "texts": body.texts,
            "meta": meta,
            "response_type": "embeddings_floats",
        }

    return routes


def _by_type(
    context: RequestContext,
    vectors: Floats,
    types: Sequence[EmbeddingType],
    texts: list[str],
    meta: CohereMeta,
) -> CohereResponse:
    encoded: CohereVectors = {}
    for name in types:
        encoded[name] = _encode(vectors, name)
    return {
        "id": context.id,
        "embeddings": encoded,
        "texts": texts,
        "meta": meta,
        "response_type": "embeddings_by_type",
    }


def _encode(vectors: Floats, embedding_type: EmbeddingType) -> Any:
    if embedding_type == "base64":
        return encode_rows(vectors, "base64")
    return convert_vectors(vectors, "float32" if embedding_type == "float" else embedding_type)


def response_meta(rows: Sequence[InputRow], context: RequestContext, version: str) -> CohereMeta:
    """Build Cohere's `meta`: API version, token count, and a warning for each truncated input."""
    meta: CohereMeta = {
        "api_version": {"version": version},
        "billed_units": {"input_tokens": context.tokens},
        "tokens": {"input_tokens": context.tokens},
    }
    warnings = [
        f"input {index} was truncated to {row.tokens} tokens"
        for index, row in enumerate(rows)
        if row.dropped
    ]
    return {**meta, "warnings": warnings} if warnings else meta
