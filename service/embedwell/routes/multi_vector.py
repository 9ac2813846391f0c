"""A vector for each token: /embed of a multi-vector model, and Jina's POST /v1/multi-vector."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from fastapi import APIRouter
from pydantic import NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.errors import BadRequest, TooLarge
from embedwell.http.error_responses import OPENAI
from embedwell.http.request_context import RequestContext
from embedwell.inference.multi_vectors import TokenVectors
from embedwell.inference.served_model import ServedModel
from embedwell.routes.common.body import Body, examples, input_list
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.dense_vectors import EmbedRequest
from embedwell.routes.common.model_registry import ModelRegistry
from embedwell.routes.common.request_inputs import Input
from embedwell.routes.common.response_body import (
    Array,
    BinaryResponse,
    EncodingFormat,
    Matrix,
    OutputType,
    Vectors,
    binary_response,
    check_json_fields,
    convert_vectors,
    encode_block,
    encode_blocks,
    encode_rows,
)
from embedwell.routes.common.response_types import OpenAIUsage, token_usage
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.jina import TextsOrObjects
from embedwell_models.output_names import MULTI
from embedwell_models.read.inputs import InputOptions
from embedwell_models.vectors import Floats

_MAX_BINARY_TEXTS = 1000  # so that their vector counts fit into a header


class MultiVectorRequest(Body):
    """Request body of /v1/multi-vector, in Jina's format.

    - `input`: a text, an image ({"image": …}), or a list of these.
    - `input_type`: whether the texts are queries or documents, which the model reads differently.
      Default: `document`.
    - `embedding_type`: number type of the vectors, or `base64` for the bytes of each text's
      vectors. Default: `float`.
    - `dimensions`: must equal the model's, if present.
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
        texts = await self._vectors(context, inputs, options)
        return texts, _convert(texts, body.output_dtype)

    async def vectors(
        self,
        context: RequestContext,
        inputs: Sequence[Input],
        options: InputOptions,
        body: EmbedRequest,
    ) -> list[Floats]:
        """Return the vectors of each input: (vectors, D)."""
        self.check_fields(body)
        return [*(await self._vectors(context, inputs, options)).vectors]

    async def encoded_vectors(
        self,
        context: RequestContext,
        inputs: Sequence[Input],
        options: InputOptions,
        body: EmbedRequest,
    ) -> list[Vectors]:
        """Return the vectors of each input in the format of another API's response."""
        self.check_fields(body)
        texts = await self._vectors(context, inputs, options)
        return [
            encode_rows(matrix, body.encoding_format)
            for matrix in _convert(texts, body.output_dtype)
        ]

    async def respond_as_jina(
        self, context: RequestContext, body: MultiVectorRequest
    ) -> JinaMultiVectors:
        """Respond to /v1/multi-vector."""
        self._check_dimensions(body.dimensions)
        options = InputOptions(truncate=body.truncate, role=body.input_type)
        texts = await self._vectors(context, input_list(body.input), options)
        integer = body.embedding_type in ("int8", "uint8")
        dtype: OutputType = body.embedding_type if integer else "float32"  # type: ignore[assignment]
        encoding: EncodingFormat = "base64" if body.embedding_type == "base64" else "float"
        values = [encode_block(matrix, encoding) for matrix in _convert(texts, dtype)]
        return {
            "model": self.model.name,
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

    async def _vectors(
        self, context: RequestContext, inputs: Sequence[Input], options: InputOptions
    ) -> TokenVectors:
        max_values = self.model.settings.max_values
        return await self.model.multi_vectors.vectors(context, inputs, options, max_values)

    def _check_dimensions(self, dimensions: int | None) -> None:
        self.model.multi_vectors.check_offered()
        dim = self.model.multi_vectors.dim
        if dimensions not in (None, dim):
            raise BadRequest(
                f"dimensions is {dimensions}, but a token's vector has {dim}; leave dimensions out",
                code="dimensions_not_offered",
                param="dimensions",
            )


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /v1/multi-vector."""
    models = registry.choice(MultiVectorService, MULTI)
    routes = api_router("embed", error_format=OPENAI)

    @routes.post("/v1/multi-vector", summary="Embed texts as a vector for each token (Jina)")
    async def multi_vector(context: RequestDep, body: MultiVectorRequest) -> JinaMultiVectors:
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
