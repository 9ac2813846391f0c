"""POST /embed: sentence vectors, in TEI's request and answer shapes and with more on request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from pydantic import PositiveInt

from models.vectors import Floats, finish
from service.api.array_format import Encoding, OutputType, convert, express, only_json, raw
from service.api.body import HostedBody, Inputs, On, batch, example
from service.api.openapi_responses import documented
from service.api.partial_results import good, results
from service.api.router import Context, api_router
from service.api.schemas.embed import EmbedAnswer
from service.api.served_names import ServedNames
from service.errors import BadRequest
from service.inference.dimensions import Dimensions
from service.inference.item_result import ItemResult, stack_results
from service.inference.pipeline import Pipeline
from service.inputs.tokenized_input import TokenizedInput
from service.request.request_context import RequestContext


class EmbedRequest(HostedBody):
    """inputs: a text, its token ids, or a list of either.

    late_chunking: inputs are consecutive chunks of one text, each embedded with all of it in view.
    details: what became of each input. partial: an input that is refused or fails is an error in
    its place, and the others have their vectors.
    """

    model_config = example(
        {"inputs": "Hello, world"},
        {"inputs": [101, 7592, 102], "encoding_format": "base64", "output_dtype": "int8"},
        {"inputs": ["a long text", ""], "on_overflow": "mean", "partial": True},
        {"inputs": ["One chunk.", "And another."], "late_chunking": True, "prompt": "text: "},
        inputs=["Hello, world", "A second text"],
        details=True,
    )

    inputs: Inputs
    normalize: On = True
    dimensions: PositiveInt | None = None
    encoding_format: Encoding = "float"
    output_dtype: OutputType = "float32"
    late_chunking: bool = False
    details: bool = False
    partial: bool = False


@dataclass(frozen=True)
class Embedding:
    """What every route of sentence vectors does, in whose words ever it is asked for.

    names: what the model is called. layers: that it has, of which late chunking takes the last.
    """

    pipeline: Pipeline
    names: ServedNames
    dimensions: Dimensions
    layers: int

    async def embed(self, context: RequestContext, body: EmbedRequest) -> Any:
        if body.partial:
            return await self._partial(context, body)
        return self._answer(context, body, *await self.vectors(context, body))

    async def vectors(
        self,
        context: RequestContext,
        body: EmbedRequest,
        cut: str = "dimensions",
        length: int | None = None,
    ) -> tuple[list[TokenizedInput], Floats]:
        """What was read of each input, and the finished vectors: rows, (B, dimensions).

        cut: the client's name for that field. length: the most tokens of an input; not for chunks.
        """
        self.dimensions.check(body.dimensions, cut)
        if body.late_chunking:
            rows, vectors = stack_results(await self._late(context, body))
        else:
            inputs, reading = (
                batch(body.inputs),
                body.reading(count=body.details).with_max_length(length),
            )
            context.memory.grow_by_numbers(len(inputs) * self.dimensions.full)
            rows, vectors = await self.pipeline.embed(context, inputs, reading)
        return rows, finish(vectors, body.dimensions, body.normalize)

    async def _late(self, context: RequestContext, body: EmbedRequest) -> list[ItemResult]:
        sentence = self.pipeline.reader.sentence
        if sentence.pooling != ("mean",) or sentence.modules:
            raise BadRequest(
                "late_chunking takes the mean of tokens, which is not what this model's vectors "
                "are; see /tokens with chunks",
                code="not_offered",
                param="late_chunking",
            )
        return await self.pipeline.embed_chunks(
            context, chunks(body.inputs), body.whole(), self.layers
        )

    async def _partial(self, context: RequestContext, body: EmbedRequest) -> Any:
        only_json(context, partial=True)
        self.dimensions.check(body.dimensions)
        if body.late_chunking:
            outcomes = await self._late(context, body)
        else:
            reading, inputs = body.reading(count=True), batch(body.inputs)
            context.memory.grow_by_numbers(len(inputs) * self.dimensions.full)
            outcomes = await self.pipeline.embed_partial(context, inputs, reading)
        found = good(outcomes, self.dimensions.full)
        vectors = finish(found, body.dimensions, body.normalize)
        listed = results(outcomes, vectors, body.output_dtype, body.encoding_format)
        failed = sum("error" in result for result in listed)
        about = self._about(context, body, vectors.shape[1])
        return {"results": listed, "failed": failed, **about}

    def _answer(
        self,
        context: RequestContext,
        body: EmbedRequest,
        rows: Sequence[TokenizedInput],
        vectors: Floats,
    ) -> Any:
        values = convert(vectors, body.output_dtype)
        if found := raw(context, values):
            only_json(
                context, details=body.details, encoding_format=body.encoding_format != "float"
            )
            return found
        shown = express(values, body.encoding_format)
        if not body.details:
            return shown
        inputs = [row.as_json() for row in rows]
        return {
            "embeddings": shown,
            "inputs": inputs,
            **self._about(context, body, vectors.shape[1]),
        }

    def _about(self, context: RequestContext, body: EmbedRequest, width: int) -> dict[str, Any]:
        prompt = self.pipeline.reader.prompt(body.reading()).as_json()
        return {
            "model": self.names.first,
            "dimensions": width,
            "prompt": prompt,
            **context.usage_and_timing(),
        }


def router(embedding: Embedding) -> APIRouter:
    """The routes of this module."""
    routes = api_router("embeddings")

    @routes.post(
        "/embed",
        summary="Sentence embeddings",
        response_model=EmbedAnswer,
        responses=documented(raw=True),
    )
    @routes.post("/", include_in_schema=False)
    async def embed(context: Context, body: EmbedRequest) -> Any:
        return await embedding.embed(context, body)

    return routes


def chunks(inputs: Any) -> list[str]:
    """The texts of a document; raises BadRequest for token ids."""
    found = batch(inputs)
    for index, item in enumerate(found):
        if not isinstance(item, str):
            raise BadRequest(
                f"input {index} is token ids; late_chunking takes texts",
                param="late_chunking",
                index=index,
            )
    return [str(item) for item in found]
