"""POST /pooling: vLLM's route for every output of a model, chosen by the field `task`."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.errors import BadRequest, NotOffered
from embedwell.http.error_responses import OpenAIError
from embedwell.http.field_descriptions import forbid_extra
from embedwell.http.request_context import RequestContext
from embedwell.inference.served_model import ServedModel
from embedwell.routes.classify import ClassificationService, ClassifyRequest
from embedwell.routes.common.body import FAIL_FAST, TextInputs, examples, input_list
from embedwell.routes.common.model_registry import ModelRegistry
from embedwell.routes.common.options import TokenLimit, VLLMFields
from embedwell.routes.common.response_body import (
    BinaryType,
    EncodingFormat,
    Matrix,
    Vector,
    binary_values,
    encode_block,
)
from embedwell.routes.common.response_types import OpenAIUsage, token_usage
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.embed import EmbedService
from embedwell.routes.openai import EmbeddingsRequest
from embedwell.routes.openai_inputs import Message
from embedwell.routes.tokens import TokenVectorService
from embedwell_models.tokenizer.tokens import Side
from embedwell_models.vectors import Floats, truncate_and_normalize

PoolingTask = Literal["embed", "token_embed", "classify", "token_classify", "plugin"]
_TASKS: dict[str, tuple[PoolingTask, ...]] = {
    "embed": ("token_embed", "embed"),
    "multi_vector": ("token_embed",),
    "classify": ("classify",),
    "rerank": ("classify",),
}
"""The tasks of a model, by its own task; the first is the default."""


class PoolingRequest(VLLMFields):
    """Request body of /pooling.

    - `task`: `embed` for a vector for each text, `token_embed` for one for each token, or
      `classify` for a score for each label. Default: `token_embed`, or `classify` for a model that
      classifies or reranks.
    - `messages`: in place of `input`: one message with one text.
    - `normalize`: whether each vector is scaled to length 1. Default: true.
    - `use_activation`: whether scores are probabilities; false for logits, and for vectors of their
      own length. Default: true.
    - `truncate_prompt_tokens`: maximum of tokens of a text, beyond which it is cut; -1 is the
      model's limit, the default.
    - `embed_dtype`, `endianness`: the numbers in base64. Default: float32, little.
    - `input`: a text, its token ids, or a list of these.
    """

    model_config = examples(
        {"input": "Hello, world", "task": "embed"},
        {"input": ["Hello", "world"], "task": "token_embed", "encoding_format": "base64"},
    )

    input: TextInputs | None = None
    messages: Annotated[list[Message], FAIL_FAST] | None = None
    model: str | None = None
    task: PoolingTask | None = None
    encoding_format: EncodingFormat | None = None
    dimensions: PositiveInt | None = None
    normalize: bool | None = None
    use_activation: bool | None = None
    truncate_prompt_tokens: TokenLimit = None
    truncation_side: Side | None = None
    add_special_tokens: Literal[True] | None = None
    embed_dtype: BinaryType | None = None
    endianness: Literal["native", "little", "big"] | None = None

    def fields(self, *names: str) -> dict[str, object]:
        """Return the values of fields that are set, for the body of another route."""
        common = ("input", "messages", "truncate_prompt_tokens", "truncation_side")
        return {
            name: getattr(self, name)
            for name in (*common, *names)
            if getattr(self, name) is not None
        }

    def encode(self, values: Floats) -> Matrix | str:
        """Encode a result as the fields say; raises BadRequest and NotFinite."""
        dtype, big_endian = self.embed_dtype or "float32", self.endianness == "big"
        if self.encoding_format == "base64":
            rows = binary_values(np.atleast_2d(values), dtype, big_endian=big_endian)
            return encode_block(rows, "base64")
        if big_endian or dtype != "float32":
            field = "endianness" if big_endian else "embed_dtype"
            raise BadRequest(
                f"{field} is of the numbers in base64; send encoding_format base64, too",
                param=field,
            )
        return encode_block(values, "float")


@forbid_extra
class PoolingResult(TypedDict):
    """Result of an input: a vector, or a matrix of one row for each token.

    - `object`: always `pooling`.
    - `data`: the vector or matrix: numbers, or their bytes in base64.
    """

    index: NonNegativeInt
    object: Literal["pooling"]
    data: Vector | Matrix


@forbid_extra
class PoolingResponse(TypedDict):
    """Response of /pooling.

    - `object`: always `list`.
    """

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[PoolingResult]
    usage: OpenAIUsage


@dataclass(frozen=True)
class PoolingService:
    """Computes the outputs of a model by vLLM's names of its tasks."""

    model: ServedModel

    async def respond(self, context: RequestContext, body: PoolingRequest) -> PoolingResponse:
        """Respond to /pooling; raises ServiceError."""
        results = await self._compute(context, body, self._task(body.task))
        return {
            "id": context.id,
            "object": "list",
            "created": int(time.time()),
            "model": self.model.name,
            "data": [
                {"index": index, "object": "pooling", "data": body.encode(result)}
                for index, result in enumerate(results)
            ],
            "usage": token_usage(context),
        }

    def _task(self, requested: PoolingTask | None) -> PoolingTask:
        offered = _TASKS[self.model.task]
        if requested is not None and requested not in offered:
            raise NotOffered(
                f"Task {requested} is not supported by the model {self.model.name!r}, which has "
                f"{', '.join(sorted(offered))}",
                param="task",
            )
        return requested or offered[0]

    async def _compute(
        self, context: RequestContext, body: PoolingRequest, task: PoolingTask
    ) -> Sequence[Floats]:
        """Compute the result of each input: (D,), (T, D) or (labels,)."""
        if task == "classify":
            return await self._classify(context, body)
        fields = EmbeddingsRequest.model_validate(
            body.fields("dimensions", "normalize", "use_activation")
        )
        request, service = fields.to_embed_request(None, self.model.name), EmbedService(self.model)
        max_length = self.model.reader.limited_length(fields.max_length, "truncate_prompt_tokens")
        if task == "embed":
            _, vectors = await service.dense.vectors(context, request, max_length=max_length)
            return list(vectors)
        inputs = input_list(request.inputs)
        options = request.input_options().with_max_length(max_length)
        if self.model.multi_vectors.offered:
            return await service.multi_vector.vectors(context, inputs, options, request)
        states = await TokenVectorService(self.model).last_layer(context, inputs, options)
        return [truncate_and_normalize(each, None, request.normalize) for each in states]

    async def _classify(self, context: RequestContext, body: PoolingRequest) -> list[Floats]:
        fields = ClassifyRequest.model_validate(body.fields("use_activation"))
        return list(await ClassificationService(self.model).label_scores(context, fields))


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /pooling."""
    models = registry.choice(PoolingService)
    routes = api_router("embed", error_schema=OpenAIError)

    @routes.post("/pooling", summary="Compute any output of a model (vLLM)")
    async def pooling(context: RequestDep, body: PoolingRequest) -> PoolingResponse:
        return await models.choose(body.model).respond(context, body)

    return routes
