"""Compute a vector for each token, for /embed and for other APIs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedwell.compute.multi_vectors import TokenVectors, text_role
from embedwell.compute.request_limits import check_response_numbers
from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest, TooLarge
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import input_list
from embedwell.routes.common.dense_vectors import EmbedRequest, MuveraOptions
from embedwell.routes.common.request_inputs import Input
from embedwell.routes.common.response_body import (
    Array,
    BinaryResponse,
    Matrix,
    OutputType,
    Vectors,
    binary_response,
    check_json_fields,
    convert_vectors,
    encode_blocks,
    encode_rows,
)
from embedwell_models.read.inputs import InputOptions, InputRow
from embedwell_models.vectors import Floats

_MAX_BINARY_TEXTS = 1000  # so that their vector counts fit into a header


@dataclass(frozen=True)
class MultiVectorService:
    """Computes a vector for each token."""

    model: ServedModel

    async def embed(
        self, context: RequestContext, body: EmbedRequest
    ) -> list[Matrix] | list[str] | BinaryResponse:
        """Respond to /embed with the vectors alone."""
        _, matrices = await self.matrices(context, body, described=False)
        return _binary_response(context, matrices) or encode_blocks(matrices, body.encoding_format)

    async def matrices(
        self, context: RequestContext, body: EmbedRequest, *, described: bool
    ) -> tuple[TokenVectors, list[Array]]:
        """Compute each input's vectors, and convert them to the number type of the request.

        described: whether the response has further fields, and so must be JSON.
        """
        self.check_fields(body)
        check_json_fields(
            context, outputs=described, encoding_format=body.encoding_format != "float"
        )
        inputs, options = input_list(body.inputs), body.options_without_windows()
        return await self.converted(context, inputs, options, body.output_dtype, body.pool_factor)

    async def encodings(
        self, context: RequestContext, body: EmbedRequest, muvera: MuveraOptions
    ) -> tuple[list[InputRow], Floats]:
        """Compute each input's token vectors, and encode them as one vector: (B, dimensions).

        Returns the tokenized inputs, too.
        """
        self.check_fields(body)
        inputs, options = input_list(body.inputs), body.options_without_windows()
        encoder = muvera.encoder(self.model.multi_vectors.dim)
        numbers = len(inputs) * encoder.dimensions
        check_response_numbers(numbers, self.model.settings.max_values)
        context.memory.grow_by_numbers(numbers)
        model = self.model.multi_vectors
        texts = await model.vectors(context, inputs, options, None, body.pool_factor)
        return texts.rows, await model.encodings(texts.vectors, encoder, text_role(options))

    async def vectors(
        self,
        context: RequestContext,
        inputs: Sequence[Input],
        options: InputOptions,
        body: EmbedRequest,
    ) -> list[Floats]:
        """Return the vectors of each input: (vectors, D)."""
        self.check_fields(body)
        model, most = self.model.multi_vectors, self.model.settings.max_values
        return [*(await model.vectors(context, inputs, options, most)).vectors]

    async def encoded_vectors(
        self,
        context: RequestContext,
        inputs: Sequence[Input],
        options: InputOptions,
        body: EmbedRequest,
    ) -> list[Vectors]:
        """Return the vectors of each input in the format of another API's response."""
        self.check_fields(body)
        _, matrices = await self.converted(context, inputs, options, body.output_dtype)
        return [encode_rows(matrix, body.encoding_format) for matrix in matrices]

    async def converted(
        self,
        context: RequestContext,
        inputs: Sequence[Input],
        options: InputOptions,
        dtype: OutputType,
        pool_factor: int = 1,
    ) -> tuple[TokenVectors, list[Array]]:
        """Compute each input's vectors, and convert them to a number type."""
        model, most = self.model.multi_vectors, self.model.settings.max_values
        texts = await model.vectors(context, inputs, options, most, pool_factor)
        return texts, [convert_vectors(rows, dtype, i) for i, rows in enumerate(texts.vectors)]

    def check_fields(self, body: EmbedRequest) -> None:
        """Raise BadRequest for a field that multi-vector models do not support."""
        for name in ("late_chunking", "partial"):
            if getattr(body, name):
                raise BadRequest(
                    f"{name} is not supported by a model with a vector for each token; leave it "
                    "out",
                    param=name,
                )
        if not body.normalize:
            raise BadRequest(
                "normalize must be true: a model with a vector for each token returns them "
                "as they are",
                param="normalize",
            )
        self.check_dimensions(body.dimensions)

    def check_dimensions(self, dimensions: int | None) -> None:
        """Raise BadRequest unless the model has vectors of these dimensions for tokens."""
        self.model.multi_vectors.check_offered()
        dim = self.model.multi_vectors.dim
        if dimensions not in (None, dim):
            raise BadRequest(
                f"dimensions is {dimensions}, but a token's vector has {dim}; leave dimensions out",
                code="dimensions_not_offered",
                param="dimensions",
            )


def _binary_response(context: RequestContext, matrices: list[Array]) -> BinaryResponse | None:
    # The vectors of all texts, concatenated; the header x-lengths has each text's number of them.
    response = binary_response(context, np.concatenate(matrices))
    if response is None:
        return None
    if len(matrices) > _MAX_BINARY_TEXTS:
        raise TooLarge(
            f"a binary response has at most {_MAX_BINARY_TEXTS} texts; send fewer, or accept "
            "application/json",
            code="too_many_texts",
        )
    lengths = ",".join(str(len(matrix)) for matrix in matrices).encode()
    headers = [*response.extra_headers, (b"x-lengths", lengths)]
    return BinaryResponse(response.media_type, response.body, headers)
