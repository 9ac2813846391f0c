"""POST /embed: sentence vectors, in TEI's request and response formats with more options."""

from collections.abc import Sequence
from typing import NotRequired

import numpy as np
from fastapi import APIRouter
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.compute.multi_vectors import TokenVectors, text_role
from embedwell.compute.pipeline import ItemResult, Pipeline
from embedwell.compute.request_limits import ResponseSize, check_response_numbers
from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest, ServiceError
from embedwell.http.error_responses import Fault, describe
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import input_list
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.dense_vectors import DenseVectorService, EmbedRequest, OutputName
from embedwell.routes.common.multi_vectors import MultiVectorService
from embedwell.routes.common.openapi_responses import route_responses
from embedwell.routes.common.response_body import (
    BinaryResponse,
    Matrix,
    Vector,
    Vectors,
    as_lists,
    binary_response,
    check_json_fields,
    convert_vectors,
    encode_blocks,
    encode_rows,
    float16_overflow,
    rows_not_finite,
)
from embedwell.routes.common.response_types import (
    Input,
    RequestSummary,
    describe_input,
    describe_inputs,
    describe_request,
)
from embedwell.routes.common.router import RequestDep, api_router, complete_error
from embedwell.routes.common.server_state import ModelRegistry
from embedwell.routes.embed_sparse import (
    SparseArrays,
    as_arrays,
    response_numbers,
    sparse_output_name,
)
from embedwell_models.output_names import DENSE, MULTI, SPARSE, SPARSE_QUERY
from embedwell_models.outputs import TextOutputs
from embedwell_models.read.inputs import InputRow
from embedwell_models.vectors import Floats, quantize, truncate_and_normalize


@forbid_extra
class Details(RequestSummary):
    """Prompt, usage and timing of the request, and the model."""

    model: str
    dimensions: NonNegativeInt


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


class ComputedOutputs(TypedDict):
    """The kinds of vectors that a request names, and its inputs.

    - `embeddings`: dense vectors, if `outputs` has `dense`.
    - `sparse`: sparse vectors, if `outputs` has `sparse`.
    - `multi`: for each input, a vector for each token, if `outputs` has `multi`.
    """

    embeddings: NotRequired[Vectors]
    sparse: NotRequired[list[SparseArrays]]
    multi: NotRequired[list[Matrix] | list[str]]
    token_ids: NotRequired[list[list[NonNegativeInt]]]
    inputs: list[Input]


@forbid_extra
class Outputs(ComputedOutputs, Details):
    """Response to a request with `outputs`: the kinds of vectors that were requested.

    - `token_ids`: for each entry of `multi`, the ids of its tokens, unless they are pooled.
    """


EmbedResponse = Vectors | list[Matrix] | Embeddings | Outputs | Partial


class EmbedService:
    """Responds to /embed with any kind of vectors of a text.

    multi_vector: responds if the model computes a vector for each token and no dense vector.
    """

    def __init__(self, model: ServedModel) -> None:
        self.model, self.dense = model, DenseVectorService(model)
        self.multi_vector = MultiVectorService(model)

    async def embed(
        self, context: RequestContext, body: EmbedRequest
    ) -> EmbedResponse | BinaryResponse:
        """Respond to /embed."""
        only_tokens = self.model.multi_vectors.alone
        _check_token_fields(body, only_tokens)
        if body.muvera is not None:
            _check_json(context, body)
            rows, vectors = await self.multi_vector.encodings(context, body, body.muvera)
            return self._respond(context, body, rows, vectors)
        if body.outputs is not None:
            return await self.outputs(context, body, body.outputs)
        if only_tokens:
            self.model.pipeline.check_outputs(())
            if body.details:
                return await self._token_vectors(context, body)
            return await self.multi_vector.embed(context, body)
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
            **self._details(context, body, vectors.shape[1]),
        }

    async def outputs(
        self, context: RequestContext, body: EmbedRequest, names: Sequence[OutputName]
    ) -> Outputs:
        """Compute the named kinds of vectors of each input; raises BadRequest, TooLarge."""
        if self.model.multi_vectors.alone:
            self.model.pipeline.check_outputs(names)
            return await self._token_vectors(context, body)
        self.dense.check_offered(names, body.dimensions)
        outputs = await self._compute_outputs(context, body, names)
        dimensions = body.dimensions or self.model.dimensions.full
        return {**outputs, **self._details(context, body, dimensions)}

    async def _token_vectors(self, context: RequestContext, body: EmbedRequest) -> Outputs:
        texts, matrices = await self.multi_vector.matrices(context, body, described=True)
        outputs: ComputedOutputs = {
            "multi": encode_blocks(matrices, body.encoding_format),
            "token_ids": [as_lists(ids) for ids in texts.token_ids],
            "inputs": describe_inputs(texts.rows),
        }
        if texts.pooled:
            del outputs["token_ids"]
        return {**outputs, **self._details(context, body, self.model.dimensions.full)}

    async def _embed_partial(self, context: RequestContext, body: EmbedRequest) -> Partial:
        check_json_fields(context, partial=True)
        results = await self.dense.results(context, body)
        pooled = _stack_vectors(results, self.model.dimensions.full)
        vectors = truncate_and_normalize(pooled, body.dimensions, body.normalize)
        described = _partial_results(results, vectors, body)
        return {
            "results": described,
            "failed": sum("error" in result for result in described),
            **self._details(context, body, vectors.shape[1]),
        }

    async def _compute_outputs(
        self, context: RequestContext, body: EmbedRequest, requested: Sequence[OutputName]
    ) -> ComputedOutputs:
        _check_fields(context, body)
        pipeline, numbers_per_token = self.model.pipeline, self.model.multi_vectors.dim
        kinds = {DENSE: DENSE, SPARSE: sparse_output_name(pipeline, body), MULTI: MULTI}
        names = list(dict.fromkeys(kinds[name] for name in requested))
        pipeline.check_outputs(names)
        rows = await self.model.reader.read(
            context, input_list(body.inputs), body.options_without_windows()
        )
        if MULTI in requested:
            check_response_numbers(
                context.tokens * numbers_per_token, self.model.settings.max_values
            )
            context.memory.grow_by_numbers(context.tokens * numbers_per_token)
        outputs = await _compute(pipeline, context, rows, names, self.model.settings.max_values)
        response: ComputedOutputs = {"inputs": describe_inputs(rows)}
        if DENSE in requested:
            vectors = np.stack([text.dense for text in outputs if text.dense is not None])
            finished = truncate_and_normalize(vectors, body.dimensions, body.normalize)
            values = convert_vectors(finished, body.output_dtype)
            response["embeddings"] = encode_rows(values, body.encoding_format)
        if SPARSE in requested:
            response["sparse"] = [as_arrays(it.sparse) for it in outputs if it.sparse is not None]
        if MULTI in requested:
            matrices = [text.multi for text in outputs if text.multi is not None]
            ids = [  # the first tokens have no vector
                row.ids[len(row.ids) - len(matrix) :]
                for row, matrix in zip(rows, matrices, strict=True)
            ]
            texts = await self.model.multi_vectors.pool(
                context,
                TokenVectors(rows, matrices, ids),
                body.pool_factor,
                text_role(body.input_options()),
            )
            response["multi"] = encode_blocks(
                (convert_vectors(matrix, body.output_dtype) for matrix in texts.vectors),
                body.encoding_format,
            )
            if not texts.pooled:
                response["token_ids"] = [as_lists(each) for each in texts.token_ids]
        return response

    def _details(self, context: RequestContext, body: EmbedRequest, dimensions: int) -> Details:
        prompt = self.model.reader.resolve_prompt(body.input_options())
        return {
            "model": self.model.name,
            "dimensions": dimensions,
            **describe_request(context, prompt),
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


async def _compute(
    pipeline: Pipeline,
    context: RequestContext,
    rows: Sequence[InputRow],
    names: Sequence[str],
    max_values: int,
) -> list[TextOutputs]:
    if not {SPARSE, SPARSE_QUERY} & {*names}:  # the size was checked before
        return await pipeline.compute_outputs(context, rows, names)
    size = ResponseSize(context.memory, max_values)

    def keep(text: TextOutputs) -> TextOutputs:
        assert text.sparse is not None
        size.grow(response_numbers(text.sparse))
        return text

    return await pipeline.compute_in_parts(context, rows, names, keep)


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


def _check_fields(context: RequestContext, body: EmbedRequest) -> None:
    check_json_fields(context, outputs=True)
    for name in ("late_chunking", "partial"):
        if getattr(body, name):
            raise BadRequest(
                f"{name} cannot be combined with outputs; leave one of them out", param=name
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
