"""POST /pooling: vLLM's route for every output of a model, chosen by the field `task`."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from fastapi import APIRouter
from pydantic import NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest, NotOffered
from embedwell.http.error_responses import VLLM
from embedwell.http.request_context import RequestContext
from embedwell.routes.classify import ClassificationService, ClassifyRequest
from embedwell.routes.common.body import TextInputs, examples, input_list
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.dense_vectors import EmbedRequest
from embedwell.routes.common.response_body import (
    Array,
    BinaryResponse,
    Matrix,
    Vector,
    encode_block,
)
from embedwell.routes.common.response_types import OpenAIUsage, token_usage
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry
from embedwell.routes.embed import EmbedService
from embedwell.routes.tokens import TokenVectorService
from embedwell_models.vectors import Floats, truncate_and_normalize
from embedwell_vendors.vllm_fields import VLLMEmbeddingFields

PoolingTask = Literal["embed", "token_embed", "classify", "token_classify", "plugin"]
_TASKS: dict[str, tuple[PoolingTask, ...]] = {
    "embed": ("token_embed", "embed"),
    "multi_vector": ("token_embed",),
    "classify": ("classify",),
    "rerank": ("classify",),
    "decide": (),
}
"""The tasks of a model, by its own task; the first is the default."""


class PoolingRequest(VLLMEmbeddingFields):
    """Request body of /pooling.

    - `task`: `embed` for a vector for each text, `token_embed` for one for each token, or
      `classify` for a score for each label. Default: `token_embed`, or `classify` for a model that
      classifies or reranks.
    - `messages`: in place of `input`: one message with one text, or a conversation for a model that
      reads its texts in a chat template.
    - `add_generation_prompt`, `continue_final_message`: for such a model: the start of the reply is
      part of its format with each of them, and without.
    - `normalize`: whether each vector is scaled to length 1. Default: true.
    - `use_activation`: whether scores are probabilities; false for logits, and for vectors of their
      own length. Default: true.
    - `truncate_prompt_tokens`: maximum of tokens of a text, beyond which it is cut; -1 is the
      model's limit, the default.
    - `input`: a text, its token ids, or a list of these.
    """

    model_config = examples(
        {"input": "Hello, world", "task": "embed"},
        {"input": ["Hello", "world"], "task": "token_embed", "encoding_format": "base64"},
    )

    input: TextInputs | None = None
    model: str | None = None
    task: PoolingTask | None = None
    dimensions: PositiveInt | None = None
    add_special_tokens: Literal[True] | None = None

    def to_embed_request(self, model: str, reads_messages: bool) -> EmbedRequest:
        """Convert to a request of /embed; raises BadRequest. For the parameters, see `content`."""
        content = self.content(self.input, model, reads_messages)
        return EmbedRequest(
            inputs=content.input,
            **self.overflow(),
            prompt=content.instruction,
            dimensions=self.dimensions,
            normalize=self.value("normalize") is not False,
        )

    def to_classify_request(self) -> ClassifyRequest:
        """Convert to a request of /classify; raises ValidationError."""
        names = {"input", "messages", "truncate_prompt_tokens", "truncation_side", "use_activation"}
        return ClassifyRequest.model_validate(self.model_dump(include=names, exclude_none=True))

    def encode(self, values: Floats) -> Matrix | str:
        """Encode a result for JSON as the fields say; raises BadRequest and NotFinite."""
        if self.encoding_format == "base64":
            return encode_block(self.binary_result(values), "base64")
        big_endian = self.endianness == "big"
        if big_endian or self.embed_dtype not in (None, "float32"):
            field = "endianness" if big_endian else "embed_dtype"
            raise BadRequest(
                f"{field} is of the numbers in base64 or bytes; send encoding_format base64, too",
                param=field,
            )
        return encode_block(values, "float")

    def binary_result(self, values: Floats) -> Array:
        """Convert a result to the numbers whose bytes are sent; raises NotFinite."""
        return self.binary(np.atleast_2d(values)).reshape(values.shape)


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

    async def respond(
        self, context: RequestContext, body: PoolingRequest
    ) -> PoolingResponse | BinaryResponse:
        """Respond to /pooling; raises ServiceError."""
        results = await self._compute(context, body, self._task(body.task))
        if body.wants_bytes:
            arrays = list(map(body.binary_result, results))
            return body.bytes_response(context, self.model.name, arrays)
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
        if not offered:
            offered_elsewhere = self.model.description.outputs
            raise NotOffered("this model pools no texts", offered=offered_elsewhere)
        if requested is not None and requested not in offered:
            raise NotOffered(
                # Clients of vLLM search for the first words.
                f"Unsupported task: {requested!r}; the model {self.model.name!r} has "
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
        service = EmbedService(self.model)
        request = body.to_embed_request(self.model.name, self.model.reads_messages)
        max_length = self.model.reader.limited_length(body.max_length, "truncate_prompt_tokens")
        if task == "embed":
            _, vectors = await service.dense.vectors(context, request, max_length=max_length)
            return list(vectors)
        inputs = input_list(request.inputs)
        options = request.input_options().with_max_length(max_length)
        if self.model.multi_vectors.offered:
            return await service.outputs.multi_vector.vectors(context, inputs, options, request)
        states = await TokenVectorService(self.model).last_layer(context, inputs, options)
        return [truncate_and_normalize(each, None, request.normalize) for each in states]

    async def _classify(self, context: RequestContext, body: PoolingRequest) -> list[Floats]:
        request = body.to_classify_request()
        return list(await ClassificationService(self.model).label_scores(context, request))


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /pooling."""
    models = registry.choice(PoolingService)
    routes = api_router("embed", error_format=VLLM)

    @routes.post(
        "/pooling", response_model=PoolingResponse, summary="Compute any output of a model (vLLM)"
    )
    async def pooling(
        context: RequestDep, body: PoolingRequest
    ) -> PoolingResponse | BinaryResponse:
        return await models.choose(body.model).respond(context, body)

    return routes
