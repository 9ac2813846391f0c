"""POST /embed: sentence vectors, in TEI's request and response formats with more options."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from fastapi import APIRouter
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.compute.pipeline import ItemResult
from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest, ServiceError
from embedwell.http.error_responses import Fault, describe
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.dense_vectors import DenseVectorService, EmbedRequest
from embedwell.routes.common.openapi_responses import route_responses
from embedwell.routes.common.response_body import (
    BinaryResponse,
    Matrix,
    Vector,
    Vectors,
    binary_response,
    check_json_fields,
    convert_vectors,
    encode_rows,
    float16_overflow,
    rows_not_finite,
)
from embedwell.routes.common.response_types import (
    Details,
    Input,
    Outputs,
    describe_input,
    describe_inputs,
)
from embedwell.routes.common.router import RequestDep, api_router, complete_error
from embedwell.routes.common.server_state import ModelRegistry
from embedwell_models.outputs.names import DENSE, MULTI
from embedwell_models.read.inputs import InputRow
from embedwell_models.vectors import Floats, quantize, truncate_and_normalize

if TYPE_CHECKING:
    from embedwell.routes.embed_outputs import OutputService


@forbid_extra
class Embeddings(Details):
    """Response to a request with `details`.

    - `inputs`: token count of each input, in the request's order.
    """

    embeddings: Vectors
    inputs: list[Input]


@forbid_extra
class Embedded(Input):
    """Vector and token count of an input."""

    embedding: Vector


@forbid_extra
class Failed(TypedDict):
    """Error of an input.

    - `error`: why the input has no vector.
    """

    error: Fault


@forbid_extra
class Partial(Details):
    """Response to a request with `partial`: a vector or an error for each input.

    - `results`: for each input in the request's order, its vector or its error.
    - `failed`: number of inputs that have an error.
    """

    results: list[Embedded | Failed]
    failed: NonNegativeInt


EmbedResponse = Vectors | list[Matrix] | Embeddings | Outputs | Partial


class EmbedService:
    """Responds to /embed with any kind of vectors of a text."""

    def __init__(self, model: ServedModel) -> None:
        self.model, self.dense = model, DenseVectorService(model)
        self._only_tokens = model.has_only_token_vectors

    @cached_property
    def outputs(self) -> "OutputService":
        """Responds with other vectors than a dense one, which few requests need."""
        from embedwell.routes.embed_outputs import OutputService

        return OutputService(self.dense)

    async def embed(
        self, context: RequestContext, body: EmbedRequest
    ) -> EmbedResponse | BinaryResponse:
        """Respond to /embed."""
        _check_token_fields(body, self._only_tokens)
        if body.muvera is not None:
            _check_json(context, body)
            token_vectors = self.outputs.multi_vector
            rows, vectors = await token_vectors.encodings(context, body, body.muvera)
            return self._respond(context, body, rows, vectors)
        if body.outputs is not None or self._only_tokens:
            return await self.outputs.embed(context, body)
        if body.partial:
            return await self._embed_partial(context, body)
        _check_json(context, body)
        rows, vectors = await self.dense.vectors(context, body)
        return self._respond(context, body, rows, vectors)

    def _respond(
        self,
        context: RequestContext,
        body: EmbedRequest,
        rows: Sequence[InputRow],
        vectors: Floats,
    ) -> EmbedResponse | BinaryResponse:
        """Respond with one vector for each input: (B, D)."""
        values = convert_vectors(vectors, body.output_dtype)
        if response := binary_response(context, values):
            return response
        embeddings = encode_rows(values, body.encoding_format)
        if not body.details:
            return embeddings
        return {
            "embeddings": embeddings,
            "inputs": describe_inputs(rows),
            **self.dense.details(context, body, vectors.shape[1]),
        }

    async def _embed_partial(self, context: RequestContext, body: EmbedRequest) -> Partial:
        check_json_fields(context, partial=True)
        results = await self.dense.results(context, body)
        pooled = _stack_vectors(results, self.model.dimensions.full)
        vectors = truncate_and_normalize(pooled, body.dimensions, body.normalize)
        described = _partial_results(results, vectors, body)
        return {
            "results": described,
            "failed": sum("error" in result for result in described),
            **self.dense.details(context, body, vectors.shape[1]),
        }


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /embed."""
    models = registry.choice(EmbedService, DENSE, MULTI)
    routes = api_router("embed")

    @routes.post(
        "/embed",
        summary="Embed texts or images",
        response_model=EmbedResponse,
        responses=route_responses(binary=True),
    )
    async def embed(context: RequestDep, body: EmbedRequest) -> EmbedResponse | BinaryResponse:
        body = body.with_parameters()
        return await models.choose(body.model, body.task).embed(context, body)

    return routes


def _check_token_fields(body: EmbedRequest, only_tokens: bool) -> None:
    """Raise BadRequest for a field of token vectors in a request for others.

    only_tokens: whether the model has no others.
    """
    if body.muvera is not None and body.outputs is not None:
        raise BadRequest(
            "muvera cannot be combined with outputs; leave one of them out", param="muvera"
        )
    if body.pool_factor == 1 or body.muvera is not None:
        return
    if not (only_tokens if body.outputs is None else MULTI in body.outputs):
        raise BadRequest(
            'pool_factor is for vectors of tokens; add "outputs": ["multi"], or leave it out',
            param="pool_factor",
        )


def _check_json(context: RequestContext, body: EmbedRequest) -> None:
    check_json_fields(
        context, details=body.details, encoding_format=body.encoding_format != "float"
    )


def _stack_vectors(results: Sequence[ItemResult], dim: int) -> Floats:
    """Stack the vectors of the inputs that did not fail: (at most B, dim)."""
    vectors = [result[1] for result in results if not isinstance(result, ServiceError)]
    return np.stack(vectors) if vectors else np.empty((0, dim), dtype=np.float32)


def _partial_results(
    results: Sequence[ItemResult], vectors: Floats, body: EmbedRequest
) -> list[Embedded | Failed]:
    """Describe each input's vector or error, in the request's order.

    vectors: the finished vectors of the inputs that did not fail.
    """
    values = quantize(vectors, body.output_dtype)
    overflowed = set(rows_not_finite(values).tolist()) if body.output_dtype == "float16" else set()
    encoded: Sequence[Vector] = encode_rows(values, body.encoding_format)
    rows = iter(enumerate(encoded))
    described: list[Embedded | Failed] = []
    for index, result in enumerate(results):
        if isinstance(result, ServiceError):
            complete_error(result, body)
            described.append({"error": describe(result)})
            continue
        row, embedding = next(rows)
        if row in overflowed:
            described.append({"error": describe(float16_overflow(index))})
        else:
            described.append({"embedding": embedding, **describe_input(result[0])})
    return described
