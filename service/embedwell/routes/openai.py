"""POST /v1/embeddings: OpenAI's embeddings API; other vendors' fields are in a wing."""

import time
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NotRequired

from fastapi import APIRouter
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell import doors
from embedwell.http.error_responses import VOYAGE
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import WHOLE, Body, TextInputs, input_list
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.dense_vectors import EmbedRequest
from embedwell.routes.common.response_body import BinaryResponse, EncodingFormat, Matrix, Vector
from embedwell.routes.common.response_types import (
    OpenAIEmbedding,
    OpenAIUsage,
    SparseArrays,
    openai_embeddings,
    token_usage,
)
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelChoice, ModelRegistry
from embedwell.routes.embed import EmbedService
from embedwell.routes.jina import JinaEmbeddings
from embedwell_models.outputs.names import DENSE, MULTI


class OpenAIRequest(Body):
    """Request body of /v1/embeddings with OpenAI's fields alone.

    - `input`: a text, its token ids, or a list of these.
    - `dimensions`: number of dimensions that are kept of each vector, from 1 to the model's, for a
      model trained for it (Matryoshka). Default, and for 0: all.
    - `user`: OpenAI's id of an end user; ignored.
    """

    wider = doors.EMBEDDINGS_BODY

    input_fields: ClassVar[Sequence[str]] = ("input",)

    input: TextInputs
    model: str | None = None
    encoding_format: EncodingFormat | None = None
    dimensions: Annotated[NonNegativeInt, WHOLE] | None = None
    user: str | None = None

    async def respond(
        self, context: RequestContext, models: ModelChoice[EmbedService]
    ) -> "OpenAIResponse | BinaryResponse":
        """Respond with a vector for each input; raises ServiceError."""
        service, role = models.choose_with_role(self.model or None)
        request = EmbedRequest(
            inputs=input_list(self.input),
            input_type=role,
            dimensions=self.dimensions or None,
            encoding_format=self.encoding_format or "float",
        )
        _, vectors = await service.dense.vectors(context, request)
        return openai_response(
            openai_embeddings(request.encode(vectors)), service.model.name, context
        )


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


def openai_response(
    data: list[OpenAIEmbedding] | list[JinaEmbeddings] | list[OutputEmbeddings],
    model: str,
    context: RequestContext,
) -> OpenAIResponse:
    """Build the response with the results of the inputs. model: its name."""
    return {
        "id": context.id,
        "object": "list",
        "created": int(time.time()),
        "data": data,
        "model": model,
        "usage": token_usage(context),
    }


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /v1/embeddings, which Infinity has at /embeddings."""
    models = registry.choice(EmbedService, DENSE, MULTI)
    routes = api_router("OpenAI", error_format=VOYAGE, base_path="/v1/")

    @routes.post(
        "/v1/embeddings", response_model=OpenAIResponse, summary="Create embeddings (OpenAI)"
    )
    @routes.post("/embeddings", include_in_schema=False)
    async def embeddings(
        context: RequestDep, body: OpenAIRequest
    ) -> OpenAIResponse | BinaryResponse:
        return await body.respond(context, models)

    return routes
