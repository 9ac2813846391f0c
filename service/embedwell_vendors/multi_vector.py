"""POST /v1/multi-vector: Jina's API for a vector for each token."""

from typing import Literal

from fastapi import APIRouter
from pydantic import NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.http.error_responses import OPENAI
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import Body, examples, input_list
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.dense_vectors import PoolFactor
from embedwell.routes.common.multi_vectors import MultiVectorService
from embedwell.routes.common.response_body import EncodingFormat, OutputType, encode_block
from embedwell.routes.common.response_types import OpenAIUsage, token_usage
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry
from embedwell_models.outputs.names import MULTI
from embedwell_models.read.inputs import InputOptions
from embedwell_vendors.jina_fields import TextsOrObjects


class MultiVectorRequest(Body):
    """Request body of /v1/multi-vector, in Jina's format.

    - `input`: a text, an image ({"image": …}), or a list of these.
    - `input_type`: whether the texts are queries or documents, which the model reads differently.
      Default: `document`.
    - `embedding_type`: number type of the vectors, or `base64` for the bytes of each text's
      vectors. Default: `float`.
    - `dimensions`: must equal the model's, if present.
    - `pool_factor`: divisor of the number of a document's vectors, of which similar ones become
      their mean. Default: 1.
    - `truncate`: whether texts that are too long are cut off instead of rejected. Default: the
      server's setting.
    """

    model_config = examples(
        {"input": ["A fungus.", "Iron oxide."]},
        {"input": "What is rust?", "input_type": "query", "embedding_type": "base64"},
    )

    input_fields = ("input",)

    input: TextsOrObjects
    model: str | None = None
    input_type: Literal["query", "document"] = "document"
    embedding_type: Literal["float", "base64", "int8", "uint8"] = "float"
    dimensions: PositiveInt | None = None
    truncate: bool | None = None
    pool_factor: PoolFactor = 1


@forbid_extra
class JinaTokenVectors(TypedDict):
    """The vectors of a text's tokens, as numbers or as all their bytes in base64.

    - `object`: always `embeddings`.
    - `index`: position of the input in the request's list, from 0.
    - `embeddings`: a vector for each token: numbers, or the bytes of all of them in base64.
    """

    object: Literal["embeddings"]
    index: NonNegativeInt
    embeddings: list[list[float]] | str


@forbid_extra
class JinaMultiVectors(TypedDict):
    """Response of /v1/multi-vector.

    - `object`: always `list`.
    """

    model: str
    object: Literal["list"]
    usage: OpenAIUsage
    data: list[JinaTokenVectors]


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /v1/multi-vector."""
    models = registry.choice(MultiVectorService, MULTI)
    routes = api_router("embed", error_format=OPENAI)

    @routes.post("/v1/multi-vector", summary="Embed texts as a vector for each token (Jina)")
    async def multi_vector(context: RequestDep, body: MultiVectorRequest) -> JinaMultiVectors:
        return await _respond(models.choose(body.model), context, body)

    return routes


async def _respond(
    service: MultiVectorService, context: RequestContext, body: MultiVectorRequest
) -> JinaMultiVectors:
    service.check_dimensions(body.dimensions)
    options = InputOptions(truncate=body.truncate, role=body.input_type)
    integer = body.embedding_type in ("int8", "uint8")
    dtype: OutputType = body.embedding_type if integer else "float32"  # type: ignore[assignment]
    encoding: EncodingFormat = "base64" if body.embedding_type == "base64" else "float"
    _, matrices = await service.converted(
        context, input_list(body.input), options, dtype, body.pool_factor
    )
    return {
        "model": service.model.name,
        "object": "list",
        "usage": token_usage(context),
        "data": [
            {"object": "embeddings", "index": index, "embeddings": encode_block(matrix, encoding)}
            for index, matrix in enumerate(matrices)
        ],
    }
