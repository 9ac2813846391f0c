"""POST /v1/embeddings: OpenAI's embeddings API."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter

from embedwell.api.array_format import convert_vectors, encode_rows
from embedwell.api.body import input_list
from embedwell.api.dense_vector_service import DenseVectorService
from embedwell.api.embed_request import EmbedRequest
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openai_request import EmbeddingsRequest
from embedwell.api.openapi_responses import route_responses
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.common import OpenAIError
from embedwell.api.schemas.vendors import OpenAIAnswer
from embedwell.api.token_usage import token_usage
from embedwell.api.tokens import TokenVectorService
from embedwell.request.request_context import RequestContext
from embedwell_models.vectors import Floats, finish

_FIELDS = {"embeddings": "embedding", "sparse": "sparse_embedding", "multi": "embeddings"}
"""Maps fields of a response of /embed with `outputs` to fields of an input's result."""


def router(
    models: ModelChoice[DenseVectorService], token_vectors: ModelChoice[TokenVectorService]
) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("OpenAI")

    @routes.post(
        "/v1/embeddings",
        summary="Create embeddings (OpenAI)",
        response_model=OpenAIAnswer,
        responses=route_responses(error_schema=OpenAIError),
    )
    @routes.post("/embeddings", include_in_schema=False)
    async def embeddings(context: Context, body: EmbeddingsRequest) -> Any:
        embedding, role = models.choose_with_role(body.model or None, body.task)
        request = body.to_embed_request(role)
        if request.outputs is not None:
            outputs = await embedding.embed(context, request)
            return _response_of(_by_input(outputs), embedding.name, context)
        max_length = body.max_length(embedding.pipeline.reader.tokenizer)
        if body.return_multivector:
            options = request.input_options().with_max_length(max_length)
            inputs, multi_vectors = input_list(request.inputs), embedding.multi_vector
            if multi_vectors.vectors.offered:
                encoded = await multi_vectors.encoded_vectors(context, inputs, options, request)
                return _response("embeddings", encoded, embedding.name, context)
            service, _ = token_vectors.choose_with_role(body.model or None, body.task)
            states = await service.last_layer(context, inputs, options)
            multivectors = _encode_multivectors(states, request)
            return _response("embeddings", multivectors, embedding.name, context)
        param = "dimensions" if body.output_dimension is None else "output_dimension"
        _, vectors = await embedding.vectors(context, request, param, max_length)
        values = convert_vectors(vectors, request.output_dtype)
        encoded = encode_rows(values, request.encoding_format)
        return _response("embedding", encoded, embedding.name, context)

    return routes


def _by_input(outputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of each input, from the lists in a response of /embed."""
    fields = {field: outputs[name] for name, field in _FIELDS.items() if name in outputs}
    return [dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)]


def _encode_multivectors(states: Sequence[Floats], request: EmbedRequest) -> list[Any]:
    finished = (finish(vectors, None, request.normalize) for vectors in states)
    return [
        encode_rows(convert_vectors(vectors, request.output_dtype), request.encoding_format)
        for vectors in finished
    ]


def _response(field: str, values: Any, model: str, context: RequestContext) -> dict[str, Any]:
    return _response_of([{field: value} for value in values], model, context)


def _response_of(results: Sequence[Any], model: str, context: RequestContext) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": index, **result} for index, result in enumerate(results)
    ]
    usage = token_usage(context)
    return {"id": context.id, "object": "list", "data": data, "model": model, "usage": usage}
