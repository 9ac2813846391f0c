"""A vector for each token: /embed of a multi-vector model, and Jina's POST /v1/multi-vector."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import PositiveInt

from embedwell.api.array_format import Array, OutputType, convert_vectors, encode_block, encode_rows
from embedwell.api.binary_response import BinaryResponse, binary_response, check_json_fields
from embedwell.api.body import FAIL_FAST, Body, examples, input_list, text_list
from embedwell.api.embed_request import EmbedRequest
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import route_responses
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.common import OpenAIError
from embedwell.api.schemas.multi_vector import JinaMultiVectors
from embedwell.api.token_usage import token_usage
from embedwell.errors import BadRequest, TooLarge
from embedwell.inference.multi_vectors import MultiVectors, TokenVectors
from embedwell.inputs.options import Input, InputOptions
from embedwell.request.request_context import RequestContext

_MAX_BINARY_TEXTS = 1000  # so that their vector counts fit into a header


class MultiVectorRequest(Body):
    """Request body of /v1/multi-vector, in Jina's format.

    - `input_type`: whether the texts are queries or documents.
    - `embedding_type`: numbers, or the bytes of each text's vectors in base64.
    - `dimensions`: must equal the model's.
    - `truncate`: cut off texts that are too long.
    """

    model_config = examples(
        {"input": ["A fungus.", "Iron oxide."]},
        {"input": "What is rust?", "input_type": "query", "embedding_type": "base64"},
    )

    input: str | Annotated[list[str], FAIL_FAST]
    model: str | None = None
    input_type: Literal["query", "document"] = "document"
    embedding_type: Literal["float", "base64", "int8", "uint8"] = "float"
    dimensions: PositiveInt | None = None
    truncate: bool | None = None


@dataclass(frozen=True)
class MultiVectorService:
    """Computes a vector for each token.

    name: the model's name in responses.
    max_values: maximum count of numbers in a response.
    """

    vectors: MultiVectors
    name: str
    max_values: int

    async def embed(self, context: RequestContext, body: EmbedRequest) -> Any:
        """Respond to /embed: a list of matrices, or the fields of a response with details."""
        self.check_fields(body)
        described = body.details or body.outputs is not None
        check_json_fields(
            context, outputs=described, encoding_format=body.encoding_format != "float"
        )
        texts = await self.vectors.vectors(
            context, input_list(body.inputs), body.options_without_windows(), self.max_values
        )
        matrices = _convert(texts, body.output_dtype)
        if response := _binary_response(context, matrices):
            return response
        values = [encode_block(matrix, body.encoding_format) for matrix in matrices]
        if not described:
            return values
        inputs = [row.as_json() for row in texts.rows]
        return {"multi": values, "token_ids": texts.token_ids, "inputs": inputs}

    async def encoded_vectors(
        self,
        context: RequestContext,
        inputs: Sequence[Input],
        options: InputOptions,
        body: EmbedRequest,
    ) -> list[Any]:
        """Return the vectors of each input in the format of another API's response."""
        self.check_fields(body)
        texts = await self.vectors.vectors(context, inputs, options, self.max_values)
        return [
            encode_rows(matrix, body.encoding_format)
            for matrix in _convert(texts, body.output_dtype)
        ]

    async def respond_as_jina(self, context: RequestContext, body: MultiVectorRequest) -> Any:
        """Respond to /v1/multi-vector."""
        self._check_dimensions(body.dimensions)
        options = InputOptions(truncate=body.truncate, role=body.input_type)
        inputs = text_list(body.input)
        texts = await self.vectors.vectors(context, inputs, options, self.max_values)
        integer = body.embedding_type in ("int8", "uint8")
        dtype: OutputType = body.embedding_type if integer else "float32"  # type: ignore[assignment]
        encoding = "base64" if body.embedding_type == "base64" else "float"
        values = [encode_block(matrix, encoding) for matrix in _convert(texts, dtype)]
        return {
            "model": self.name,
            "object": "list",
            "usage": token_usage(context),
            "data": [
                {"object": "embeddings", "index": index, "embeddings": value}
                for index, value in enumerate(values)
            ],
        }

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
        self._check_dimensions(body.dimensions)

    def _check_dimensions(self, dimensions: int | None) -> None:
        if dimensions not in (None, self.vectors.dim):
            raise BadRequest(
                f"dimensions is {dimensions}, but a token's vector has {self.vectors.dim}; "
                "leave dimensions out",
                code="dimensions_not_offered",
                param="dimensions",
            )


def router(models: ModelChoice[MultiVectorService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("multi-vector")

    @routes.post(
        "/v1/multi-vector",
        summary="Embed texts as a vector for each token (Jina)",
        response_model=JinaMultiVectors,
        responses=route_responses(error_schema=OpenAIError),
    )
    async def multi_vector(context: Context, body: MultiVectorRequest) -> Any:
        return await models.choose(body.model).respond_as_jina(context, body)

    return routes


def _convert(texts: TokenVectors, dtype: OutputType) -> list[Array]:
    return [convert_vectors(rows, dtype, index) for index, rows in enumerate(texts.vectors)]


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
