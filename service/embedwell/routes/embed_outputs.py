"""Vectors of /embed other than one dense vector: of tokens, sparse, or several kinds at once."""

from collections.abc import Sequence

import numpy as np

from embedwell.compute.multi_vectors import TokenVectors, text_role
from embedwell.compute.pipeline import Pipeline
from embedwell.compute.request_limits import ResponseSize, check_response_numbers
from embedwell.errors import BadRequest
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import input_list
from embedwell.routes.common.dense_vectors import DenseVectorService, EmbedRequest, OutputName
from embedwell.routes.common.multi_vectors import MultiVectorService
from embedwell.routes.common.response_body import (
    BinaryResponse,
    Matrix,
    as_lists,
    check_json_fields,
    convert_vectors,
    encode_blocks,
    encode_rows,
)
from embedwell.routes.common.response_types import ComputedOutputs, Outputs, describe_inputs
from embedwell.routes.embed_sparse import as_arrays, response_numbers, sparse_output_name
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.read.inputs import InputRow
from embedwell_models.vectors import truncate_and_normalize


class OutputService:
    """Responds to requests that name outputs, and for models with a vector for each token alone."""

    def __init__(self, dense: DenseVectorService) -> None:
        self.model, self.dense = dense.model, dense
        self.multi_vector = MultiVectorService(dense.model)

    async def embed(
        self, context: RequestContext, body: EmbedRequest
    ) -> Outputs | list[Matrix] | list[str] | BinaryResponse:
        """Respond with the outputs of the request, by default with the vectors of tokens."""
        if body.outputs is not None:
            return await self.compute(context, body, body.outputs)
        self.model.pipeline.check_outputs(())
        if body.details:
            return await self._token_vectors(context, body)
        return await self.multi_vector.embed(context, body)

    async def compute(
        self, context: RequestContext, body: EmbedRequest, names: Sequence[OutputName]
    ) -> Outputs:
        """Compute the named kinds of vectors of each input; raises BadRequest, TooLarge."""
        if self.model.has_only_token_vectors:
            self.model.pipeline.check_outputs(names)
            return await self._token_vectors(context, body)
        self.dense.check_offered(names, body.dimensions)
        outputs = await self._compute_outputs(context, body, names)
        dimensions = body.dimensions or self.model.dimensions.full
        return {**outputs, **self.dense.details(context, body, dimensions)}

    async def _token_vectors(self, context: RequestContext, body: EmbedRequest) -> Outputs:
        texts, matrices = await self.multi_vector.matrices(context, body, described=True)
        outputs: ComputedOutputs = {
            "multi": encode_blocks(matrices, body.encoding_format),
            "token_ids": [as_lists(ids) for ids in texts.token_ids],
            "inputs": describe_inputs(texts.rows),
        }
        if texts.pooled:
            del outputs["token_ids"]
        return {**outputs, **self.dense.details(context, body, self.model.dimensions.full)}

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


def _check_fields(context: RequestContext, body: EmbedRequest) -> None:
    check_json_fields(context, outputs=True)
    for name in ("late_chunking", "partial"):
        if getattr(body, name):
            raise BadRequest(
                f"{name} cannot be combined with outputs; leave one of them out", param=name
            )
