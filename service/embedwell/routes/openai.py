"""POST /v1/embeddings: OpenAI's embeddings API, with the fields of other servers, too."""

import time
from collections.abc import Sequence
from typing import Literal, NotRequired

from fastapi import APIRouter
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.http.error_responses import VOYAGE
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import input_list
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.dense_vectors import EmbedRequest
from embedwell.routes.common.model_registry import ModelChoice, ModelRegistry
from embedwell.routes.common.response_body import (
    BinaryResponse,
    Matrix,
    Vector,
    Vectors,
)
from embedwell.routes.common.response_types import OpenAIUsage, token_usage
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.embed import EmbedService, Outputs
from embedwell.routes.embed_sparse import SparseArrays
from embedwell.routes.openai_body import EmbeddingsRequest, encode_vectors
from embedwell.routes.tokens import TokenVectorService
from embedwell_models.output_names import DENSE, MULTI
from embedwell_models.vectors import Floats, truncate_and_normalize


@forbid_extra
class OpenAIEmbedding(TypedDict):
    """Vector of an input.

    - `object`: always `embedding`.
    """

    object: Literal["embedding"]
    index: NonNegativeInt
    embedding: Vector


@forbid_extra
class JinaEmbeddings(TypedDict):
    """Result of one input with `return_multivector`: a vector for each token.

    - `object`: always `embedding`.
    - `index`: position of the input in the request's list, from 0.
    - `embeddings`: a vector for each token, in the order of the text.
    """

    object: Literal["embedding"]
    index: NonNegativeInt
    embeddings: Vectors


@forbid_extra
class OutputEmbeddings(TypedDict):
    """Result of one input with `outputs`: the kinds of vectors that were requested.

    - `object`: always `embedding`.
    - `embedding`: the dense vector, if `outputs` has `dense`.
    - `sparse_embedding`: the sparse vector, if `outputs` has `sparse`.
    - `embeddings`: a vector for each token, if `outputs` has `multi`.
    """

    object: Literal["embedding"]
    index: NonNegativeInt
    embedding: NotRequired[Vector]
    sparse_embedding: NotRequired[SparseArrays]
    embeddings: NotRequired[Matrix | str]


@forbid_extra
class OpenAIResponse(TypedDict):
    """Response of /v1/embeddings.

    - `id`: the request's id, as in Mistral's and Infinity's APIs.
    - `created`: time of the response, in seconds since 1970.
    - `object`: always `list`.
    """

    id: str
    object: Literal["list"]
    created: int
    data: list[OpenAIEmbedding] | list[JinaEmbeddings] | list[OutputEmbeddings]
    model: str
    usage: OpenAIUsage


async def create_embeddings(
    models: ModelChoice[EmbedService], context: RequestContext, body: EmbeddingsRequest
) -> OpenAIResponse | BinaryResponse:
    """Respond to a request of OpenAI's embeddings API; raises ServiceError."""
    service, role = models.choose_with_role(body.model or None, body.task)
    embedding, request = (
        service.dense,
        body.to_embed_request(role, service.model.name, service.model.reads_messages),
    )
    if request.outputs is not None:
        outputs = await service.outputs(context, request, request.outputs)
        return _response(_by_input(outputs), service.model.name, context)
    max_length = service.model.reader.limited_length(body.max_length, "truncate_prompt_tokens")
    if body.return_multivector:
        multivectors = await _multivectors(context, request, max_length, service)
        return _response(multivectors, service.model.name, context)
    param = "dimensions" if body.output_dimension is None else "output_dimension"
    _, vectors = await embedding.vectors(context, request, param, max_length)
    if body.wants_bytes:
        return body.bytes_response(context, service.model.name, list(body.binary(vectors)))
    return _response(_results(body.encode(vectors, request)), service.model.name, context)


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /v1/embeddings, which Infinity has at /embeddings."""
    models = registry.choice(EmbedService, DENSE, MULTI)
    routes = api_router("OpenAI", error_format=VOYAGE, base_path="/v1/")

    @routes.post(
        "/v1/embeddings", response_model=OpenAIResponse, summary="Create embeddings (OpenAI)"
    )
    @routes.post("/embeddings", include_in_schema=False)
    async def embeddings(
        context: RequestDep, body: EmbeddingsRequest
    ) -> OpenAIResponse | BinaryResponse:
        return await create_embeddings(models, context, body)

    return routes


async def _multivectors(
    context: RequestContext,
    request: EmbedRequest,
    max_length: int | None,
    service: EmbedService,
) -> list[JinaEmbeddings]:
    """Compute a vector for each token: the model's own kind, or the states of the last layer."""
    inputs = input_list(request.inputs)
    options = request.input_options().with_max_length(max_length)
    if service.model.multi_vectors.offered:
        encoded = await service.multi_vector.encoded_vectors(context, inputs, options, request)
    else:
        states = await TokenVectorService(service.model).last_layer(context, inputs, options)
        encoded = [
            encode_vectors(truncate_and_normalize(each, None, request.normalize), request)
            for each in states
        ]
    return [
        {"object": "embedding", "index": index, "embeddings": vectors}
        for index, vectors in enumerate(encoded)
    ]


def openai_embeddings(vectors: Floats, request: EmbedRequest) -> list[OpenAIEmbedding]:
    """Return the results of the inputs, whose vectors are (B, D)."""
    return _results(encode_vectors(vectors, request))


def _results(encoded: Sequence[Vector]) -> list[OpenAIEmbedding]:
    return [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(encoded)
    ]


def _by_input(outputs: Outputs) -> list[OutputEmbeddings]:
    """Return the result of each input, from the lists in a response of /embed."""
    data: list[OutputEmbeddings] = []
    for index in range(len(outputs["inputs"])):
        result: OutputEmbeddings = {"object": "embedding", "index": index}
        if "embeddings" in outputs:
            result["embedding"] = outputs["embeddings"][index]
        if "sparse" in outputs:
            result["sparse_embedding"] = outputs["sparse"][index]
        if "multi" in outputs:
            result["embeddings"] = outputs["multi"][index]
        data.append(result)
    return data


def _response(
    data: list[OpenAIEmbedding] | list[JinaEmbeddings] | list[OutputEmbeddings],
    model: str,
    context: RequestContext,
) -> OpenAIResponse:
    return {
        "id": context.id,
        "object": "list",
        "created": int(time.time()),
        "data": data,
        "model": model,
        "usage": token_usage(context),
    }
