"""Sentence vectors for every API."""

from dataclasses import dataclass
from typing import Any

from embedwell.api.array_format import convert_vectors, encode_rows
from embedwell.api.binary_response import binary_response, check_json_fields
from embedwell.api.body import input_list
from embedwell.api.embed_outputs import embed_outputs
from embedwell.api.embed_request import EmbedRequest
from embedwell.api.multi_vector import MultiVectorService
from embedwell.api.partial_results import partial_results, stack_vectors
from embedwell.errors import BadRequest
from embedwell.inference.dimensions import AllowedDimensions
from embedwell.inference.item_result import ItemResult, stack_results
from embedwell.inference.pipeline import Pipeline
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.request.request_context import RequestContext
from embedwell_models.vectors import Floats, finish


@dataclass(frozen=True)
class DenseVectorService:
    """Computes sentence vectors for every API, whose requests are converted to an EmbedRequest.

    name: the model's name in responses.
    layers: number of layers; late chunking pools the states after the last one.
    max_values: maximum count of numbers in sparse vectors.
    multi_vector: responds to /embed if the model computes a vector for each token.
    """

    pipeline: Pipeline
    name: str
    dimensions: AllowedDimensions
    layers: int
    max_values: int
    multi_vector: MultiVectorService

    async def embed(self, context: RequestContext, body: EmbedRequest) -> Any:
        """Respond to /embed."""
        if self.multi_vector.vectors.alone:
            return await self._embed_tokens(context, body)
        if body.outputs is not None:
            self.dimensions.check(body.dimensions)
            outputs = await embed_outputs(
                self.pipeline, context, body, self.dimensions.full, self.max_values
            )
            dimensions = body.dimensions or self.dimensions.full
            return {**outputs, **self._details(context, body, dimensions)}
        if body.partial:
            return await self._embed_partial(context, body)
        check_json_fields(
            context, details=body.details, encoding_format=body.encoding_format != "float"
        )
        rows, vectors = await self.vectors(context, body)
        values = convert_vectors(vectors, body.output_dtype)
        if response := binary_response(context, values):
            return response
        embeddings = encode_rows(values, body.encoding_format)
        if not body.details:
            return embeddings
        return {
            "embeddings": embeddings,
            "inputs": [row.as_json() for row in rows],
            **self._details(context, body, vectors.shape[1]),
        }

    async def _embed_tokens(self, context: RequestContext, body: EmbedRequest) -> Any:
        self.pipeline.check_outputs(body.outputs or ())
        response = await self.multi_vector.embed(context, body)
        if not isinstance(response, dict):
            return response
        return {**response, **self._details(context, body, self.dimensions.full)}

    async def vectors(
        self,
        context: RequestContext,
        body: EmbedRequest,
        dimensions_param: str = "dimensions",
        max_length: int | None = None,
    ) -> tuple[list[TokenizedInput], Floats]:
        """Compute the inputs' vectors, truncated and normalised as the body requests.

        Returns the tokenized inputs, too.

        dimensions_param: the client's name for the field `dimensions`, for error messages.
        max_length: maximum tokens of an input; ignored for late chunking.
        """
        self.dimensions.check(body.dimensions, dimensions_param)
        if body.late_chunking:
            rows, vectors = stack_results(await self._embed_chunks(context, body))
        else:
            inputs = input_list(body.inputs)
            options = body.input_options(count_dropped=body.details).with_max_length(max_length)
            context.memory.grow_by_numbers(len(inputs) * self.dimensions.full)
            rows, vectors = await self.pipeline.embed(context, inputs, options)
        return rows, finish(vectors, body.dimensions, body.normalize)

    async def _embed_chunks(self, context: RequestContext, body: EmbedRequest) -> list[ItemResult]:
        sentence = self.pipeline.reader.sentence
        if sentence.pooling != ("mean",) or sentence.modules:
            raise BadRequest(
                "late_chunking needs a model with mean pooling alone; send chunks to /tokens "
                "instead",
                code="not_offered",
                param="late_chunking",
            )
        return await self.pipeline.embed_chunks(
            context, _chunk_texts(body.inputs), body.options_without_windows(), self.layers
        )

    async def _embed_partial(self, context: RequestContext, body: EmbedRequest) -> Any:
        check_json_fields(context, partial=True)
        self.dimensions.check(body.dimensions)
        if body.late_chunking:
            results = await self._embed_chunks(context, body)
        else:
            options, inputs = body.input_options(count_dropped=True), input_list(body.inputs)
            context.memory.grow_by_numbers(len(inputs) * self.dimensions.full)
            results = await self.pipeline.embed_partial(context, inputs, options)
        pooled = stack_vectors(results, self.dimensions.full)
        vectors = finish(pooled, body.dimensions, body.normalize)
        items = partial_results(results, vectors, body.output_dtype, body.encoding_format)
        return {
            "results": items,
            "failed": sum("error" in item for item in items),
            **self._details(context, body, vectors.shape[1]),
        }

    def _details(
        self, context: RequestContext, body: EmbedRequest, dimensions: int
    ) -> dict[str, Any]:
        return {
            "model": self.name,
            "dimensions": dimensions,
            "prompt": self.pipeline.reader.resolve_prompt(body.input_options()).as_json(),
            **context.usage_and_timing(),
        }


def _chunk_texts(inputs: Any) -> list[str]:
    chunks = input_list(inputs)
    for index, chunk in enumerate(chunks):
        if not isinstance(chunk, str):
            raise BadRequest(
                f"input {index} is not a text; late_chunking accepts texts only",
                param="late_chunking",
                index=index,
            )
    return [str(chunk) for chunk in chunks]
