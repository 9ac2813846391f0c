"""POST /v1/embeddings and GET /v1/models: OpenAI's API; GET /models: Infinity's list."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path

from models.hub.sources import DEFAULT
from models.sentence_transformers.classifier import Task
from models.vectors import Floats, finish
from service.api.array_format import convert_vectors, encode_rows
from service.api.body import input_list
from service.api.embed import EmbeddingService, EmbedRequest
from service.api.openai_request import EmbeddingsRequest
from service.api.openapi_responses import AUTH_ERRORS, ENGINE_ERRORS, route_responses
from service.api.router import Context, api_router
from service.api.schemas.common import OpenAIError
from service.api.schemas.vendors import InfinityModels, Model, Models, OpenAIAnswer
from service.api.served_names import ServedNames
from service.api.tokens import TokenVectorService
from service.request.request_context import RequestContext

_NAME = Path(examples=[DEFAULT])


def router(
    embedding: EmbeddingService,
    token_vectors: TokenVectorService,
    task: Task,
    created: int,
    queued_tokens: Callable[[], int],
) -> APIRouter:
    """Create the routes of this module.

    task: the kind of model. created: creation time to report for the model, in seconds since 1970.
    """
    routes = api_router("OpenAI")
    _add_embedding_routes(routes, embedding, token_vectors)
    _add_list_routes(routes, embedding.names, task, created, queued_tokens)
    _add_model_route(routes, embedding.names, created)
    return routes


def _add_embedding_routes(
    routes: APIRouter, embedding: EmbeddingService, token_vectors: TokenVectorService
) -> None:
    @routes.post(
        "/v1/embeddings",
        summary="OpenAI embeddings",
        response_model=OpenAIAnswer,
        responses=route_responses((*ENGINE_ERRORS, 404), OpenAIError),
    )
    @routes.post("/embeddings", include_in_schema=False)
    async def embeddings(context: Context, body: EmbeddingsRequest) -> Any:
        names = embedding.names
        request = body.to_embed_request(names.role_of(body.model or names.primary))
        max_length = body.max_length(embedding.pipeline.reader.tokenizer)
        if body.return_multivector:
            options = request.input_options().with_max_length(max_length)
            inputs, multi_vectors = input_list(request.inputs), embedding.multi_vector
            if multi_vectors.vectors.offered:
                encoded = await multi_vectors.encoded(context, inputs, options, request)
                return _response("embeddings", encoded, names.primary, context)
            states = await token_vectors.last_layer(context, inputs, options)
            multivectors = _encode_multivectors(states, request)
            return _response("embeddings", multivectors, names.primary, context)
        param = "dimensions" if body.output_dimension is None else "output_dimension"
        _, vectors = await embedding.vectors(context, request, param, max_length)
        values = convert_vectors(vectors, request.output_dtype)
        encoded = encode_rows(values, request.encoding_format)
        return _response("embedding", encoded, names.primary, context)


def _add_list_routes(
    routes: APIRouter,
    names: ServedNames,
    task: Task,
    created: int,
    queued_tokens: Callable[[], int],
) -> None:
    responses = route_responses(AUTH_ERRORS, OpenAIError)

    @routes.get(
        "/v1/models",
        summary="The served model, under each of its names",
        response_model=Models,
        responses=responses,
    )
    async def models() -> Any:
        return {"object": "list", "data": [_model_entry(name, created) for name in names.names]}

    @routes.get(
        "/models",
        summary="The names of the served model",
        response_model=InfinityModels,
        responses=responses,
    )
    async def infinity_models() -> Any:
        stats = {"queued_tokens": queued_tokens()}
        shared = {"object": "model", "created": created, "stats": stats}
        data = [{"id": name, **shared, "capabilities": [task]} for name in names.names]
        return {"object": "list", "data": data}


def _add_model_route(routes: APIRouter, names: ServedNames, created: int) -> None:
    @routes.get(
        "/v1/models/{name:path}",
        summary="One model",
        response_model=Model,
        responses=route_responses((*AUTH_ERRORS, 404), OpenAIError),
    )
    async def model(name: Annotated[str, _NAME]) -> Any:
        names.check(name)
        return _model_entry(name, created)


def _model_entry(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "self-hosted"}


def _encode_multivectors(states: Sequence[Floats], request: EmbedRequest) -> list[Any]:
    finished = (finish(vectors, None, request.normalize) for vectors in states)
    return [
        encode_rows(convert_vectors(vectors, request.output_dtype), request.encoding_format)
        for vectors in finished
    ]


def _response(field: str, values: Any, model: str, context: RequestContext) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": index, field: value} for index, value in enumerate(values)
    ]
    usage = {"prompt_tokens": context.tokens, "total_tokens": context.tokens}
    return {"id": context.id, "object": "list", "data": data, "model": model, "usage": usage}
