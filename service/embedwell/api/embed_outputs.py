"""The field `outputs` of /embed: several kinds of vectors of each text from one forward pass."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from embedwell.api.array_format import convert_vectors, encode_block, encode_rows
from embedwell.api.binary_response import check_json_fields
from embedwell.api.body import input_list
from embedwell.api.embed_request import EmbedRequest
from embedwell.api.sparse_vectors import as_arrays, response_numbers, sparse_output_name
from embedwell.errors import BadRequest
from embedwell.inference.pipeline import Pipeline
from embedwell.request.limits import check_response_numbers
from embedwell.request.request_context import RequestContext
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.vectors import Floats, finish


async def embed_outputs(
    pipeline: Pipeline, context: RequestContext, body: EmbedRequest, dim: int, max_values: int
) -> dict[str, Any]:
    """Compute the outputs that a request names; raises BadRequest, TooLarge.

    dim: dimensions of a token's vector.
    max_values: maximum count of numbers in the sparse vectors, and in the vectors of tokens.
    """
    requested = body.outputs or []
    _check_fields(context, body)
    kinds = {DENSE: DENSE, SPARSE: sparse_output_name(pipeline, body), MULTI: MULTI}
    names = list(dict.fromkeys(kinds[name] for name in requested))
    pipeline.check_outputs(names)
    rows = await pipeline.reader.read(
        context, input_list(body.inputs), body.options_without_windows()
    )
    if MULTI in requested:
        check_response_numbers(context.tokens * dim, max_values)
        context.memory.grow_by_numbers(context.tokens * dim)
    outputs = await pipeline.compute_outputs(context, rows, names)
    response: dict[str, Any] = {"inputs": [row.as_json() for row in rows]}
    if DENSE in requested:
        vectors = [text.dense for text in outputs if text.dense is not None]
        response["embeddings"] = _encode_dense(np.stack(vectors), body)
    if SPARSE in requested:
        sparse = [text.sparse for text in outputs if text.sparse is not None]
        response["sparse"] = _describe_sparse(context, sparse, max_values)
    if MULTI in requested:
        matrices = [text.multi for text in outputs if text.multi is not None]
        response["multi"] = [
            encode_block(convert_vectors(matrix, body.output_dtype), body.encoding_format)
            for matrix in matrices
        ]
        response["token_ids"] = [  # the first tokens have no vector
            row.ids[len(row.ids) - len(matrix) :]
            for row, matrix in zip(rows, matrices, strict=True)
        ]
    return response


def _check_fields(context: RequestContext, body: EmbedRequest) -> None:
    check_json_fields(context, outputs=True)
    for name in ("late_chunking", "partial"):
        if getattr(body, name):
            raise BadRequest(
                f"{name} cannot be combined with outputs; leave one of them out", param=name
            )


def _encode_dense(vectors: Floats, body: EmbedRequest) -> Any:
    finished = finish(vectors, body.dimensions, body.normalize)
    return encode_rows(convert_vectors(finished, body.output_dtype), body.encoding_format)


def _describe_sparse(
    context: RequestContext, vectors: Sequence[SparseVector], max_values: int
) -> list[dict[str, Any]]:
    numbers = response_numbers(vectors)
    check_response_numbers(numbers, max_values)
    context.memory.grow_by_numbers(numbers)
    return [as_arrays(vector) for vector in vectors]
