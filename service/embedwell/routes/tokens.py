"""POST /tokens and /embed_all: vectors of tokens after any layer, and of parts of a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import NonNegativeInt, Tag

from embedwell.compute.request_limits import check_response_numbers
from embedwell.compute.served_model import ServedModel
from embedwell.compute.work_queue import run_in_thread
from embedwell.errors import BadRequest, service_errors
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import (
    FAIL_FAST,
    Inputs,
    TextList,
    Texts,
    by_type,
    examples,
    input_list,
    text_list,
)
from embedwell.routes.common.openapi_responses import route_responses
from embedwell.routes.common.options import InputBody, ReadingBody
from embedwell.routes.common.request_inputs import Input
from embedwell.routes.common.response_body import (
    BinaryResponse,
    EncodingFormat,
    Matrix,
    OutputType,
    as_lists,
)
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry
from embedwell.routes.token_results import (
    InputVectors,
    ResultFormat,
    TokensResponse,
    chunk_vectors,
    only_ids_below,
    span_vectors,
    token_vectors,
)
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.read.chunks import ChunkedDocument
from embedwell_models.read.inputs import InputOptions, InputRow
from embedwell_models.read.spans import SpanPooling, check_spans
from embedwell_models.vectors import Floats

InputPart = Literal["input", "token", "position", "segment"]
Layer = Annotated[
    Annotated[NonNegativeInt, Tag("<count>")] | Annotated[InputPart, Tag("<part>")],
    by_type({str: "<part>"}, "<count>"),
]

Spans = Annotated[list[tuple[NonNegativeInt, NonNegativeInt]], FAIL_FAST]


class TokensRequest(ReadingBody):
    """Request body of /tokens.

    - `inputs`: a text or a list of texts. Give `inputs` or `chunks`.
    - `chunks`: for each text, the list of its consecutive chunks.
    - `layer`: number of layers to apply, or `input` or one of its parts. Default: all layers.
    - `spans`: for each of `inputs`, a list of [start, stop) in characters.
    - `pooling`: how the vectors of a span's or chunk's tokens become one. Default: `mean`.
    - `normalize`: whether each vector is scaled to length 1. Default: false.
    - `layout`: `tokens` for a vector in each token's object, `block` for all vectors of a text in
      one array. Default: `tokens`.

    Each span or chunk gets one vector. It is pooled over the tokens of the span or chunk after the
    model has read the whole text (late chunking).
    """

    model_config = examples(
        {"inputs": "Hello, world", "spans": [[[0, 5]]]},
        {"inputs": ["one", "two"], "layer": 0, "layout": "block", "encoding_format": "base64"},
        {"chunks": [["One chunk.", "And another."]], "pooling": "max", "normalize": True},
    )

    input_fields = ("inputs", "chunks", "spans")

    inputs: Texts | None = None
    model: str | None = None
    chunks: Annotated[list[TextList], FAIL_FAST] | None = None
    layer: Layer | None = None
    spans: Annotated[list[Spans], FAIL_FAST] | None = None
    pooling: SpanPooling = "mean"
    normalize: bool = False
    encoding_format: EncodingFormat = "float"
    output_dtype: OutputType = "float32"
    layout: Literal["tokens", "block"] = "tokens"

    def checked_layer(self, config: EncoderConfig) -> int | str:
        """Return the number of layers or a part of the input; raises BadRequest."""
        layer = self.layer
        if layer is None:
            return config.num_layers
        if layer == "input":
            return 0
        if isinstance(layer, int) and layer > config.num_layers:
            raise BadRequest(
                f"layer is {layer}, but the model has {config.num_layers} layers", param="layer"
            )
        if isinstance(layer, str) and layer not in config.input_parts:
            parts = ", ".join(config.input_parts)
            raise BadRequest(
                f"layer is {layer}, but the parts of the model's input are {parts}", param="layer"
            )
        return layer


class EmbedAllRequest(InputBody):
    """Request body of /embed_all, in TEI's format.

    - `inputs`: a text, its token ids, or a list of either.
    """

    model_config = examples({"inputs": "Hello, world"}, {"inputs": [[101, 7592, 102], "one"]})

    inputs: Inputs


@dataclass(frozen=True)
class TokenVectorService:
    """Computes token vectors for every API."""

    model: ServedModel

    async def tokens(
        self, context: RequestContext, body: TokensRequest
    ) -> TokensResponse | BinaryResponse:
        """Respond to /tokens."""
        layer = body.checked_layer(self.model.config)
        inputs = await self._input_vectors(context, body, layer)
        result_format = ResultFormat(
            body.layout == "block", body.normalize, body.output_dtype, body.encoding_format
        )
        if response := result_format.binary_response(context, inputs):
            return response
        results = [result_format.result(vectors, index) for index, vectors in enumerate(inputs)]
        return {"layer": layer, "dtype": body.output_dtype, "results": results}

    async def last_layer(
        self, context: RequestContext, inputs: Sequence[Input], options: InputOptions
    ) -> list[Floats]:
        """Compute the vectors of all tokens after the last layer: B arrays (T, D)."""
        rows = await self.model.reader.read(context, inputs, options)
        states = await self._hidden_states(context, rows, self.model.config.num_layers)
        if not self.model.config.subwords:
            return states
        pairs = zip(rows, states, strict=True)
        return [
            vectors[np.asarray(row.ids) < self.model.config.vocab_size] for row, vectors in pairs
        ]

    async def _input_vectors(
        self, context: RequestContext, body: TokensRequest, layer: int | str
    ) -> list[InputVectors]:
        if body.inputs is not None and body.chunks is None:
            return await self._text_vectors(context, text_list(body.inputs), body, layer)
        if body.chunks is None or body.inputs is not None:
            raise BadRequest("give one of inputs and chunks", param="inputs")
        if body.spans is not None:
            raise BadRequest(
                "spans cannot be combined with chunks; give inputs instead of chunks", param="spans"
            )
        return await self._chunk_vectors(context, body.chunks, body, layer)

    async def _text_vectors(
        self, context: RequestContext, texts: list[str], body: TokensRequest, layer: int | str
    ) -> list[InputVectors]:
        if body.spans is not None:
            with service_errors():
                check_spans(body.spans, texts)
            values = sum(map(len, body.spans)) * self.model.config.hidden_size
            check_response_numbers(values, self.model.settings.max_values)
            context.memory.grow_by_numbers(values)
        rows, tokens = await self.model.reader.read_with_tokens(
            context, texts, body.options_without_windows()
        )
        states = await self._hidden_states(context, rows, layer)
        read_texts = list(zip(texts, rows, tokens, states, strict=True))
        if self.model.config.subwords or self.model.config.unknown_id is not None:
            # A word with several ids is returned as one token.
            limit = (
                self.model.config.vocab_size
                if body.spans is None
                else self.model.config.num_vectors
            )
            read_texts = [only_ids_below(limit, read) for read in read_texts]
        if body.spans is None:
            in_vocabulary = self.model.reader.in_vocabulary
            return [token_vectors(read, in_vocabulary) for read in read_texts]
        # Thousands of spans would block the event loop.
        return await run_in_thread(span_vectors, read_texts, body.spans, body.pooling, small=False)

    async def _chunk_vectors(
        self,
        context: RequestContext,
        chunks: list[list[str]],
        body: TokensRequest,
        layer: int | str,
    ) -> list[InputVectors]:
        if self.model.config.subwords:
            message = (
                "this model does not support chunks, because its words have several ids; send "
                "inputs and spans"
            )
            raise BadRequest(message, code="not_offered", param="chunks")
        size = sum(len(text) for texts in chunks for text in texts)
        options, documents = body.options_without_windows(), []
        for index, texts in enumerate(chunks):
            documents.append(await self._read_document(context, index, texts, options, size))
            self._check_values(context)
        if not documents:
            raise BadRequest(
                "chunks is empty; give at least one text", code="no_input", param="chunks"
            )
        states = await self._hidden_states(context, [document.row for document in documents], layer)
        return [
            chunk_vectors(index, document, vectors, body.pooling)
            for index, (document, vectors) in enumerate(zip(documents, states, strict=True))
        ]

    async def _read_document(
        self,
        context: RequestContext,
        index: int,
        chunks: list[str],
        options: InputOptions,
        size: int,
    ) -> ChunkedDocument:
        try:
            return await self.model.reader.read_chunks(context, chunks, options, size)
        except BadRequest as error:
            # The index is the chunk's, but the client's inputs are documents.
            if error.param is None:
                error.param, error.index = "chunks", index
            raise

    async def _hidden_states(
        self, context: RequestContext, rows: list[InputRow], layer: str | int
    ) -> list[Floats]:
        self._check_values(context)
        context.memory.grow_by_numbers(context.tokens * self.model.config.hidden_size)
        return await self.model.pipeline.hidden(context, rows, layer)

    def _check_values(self, context: RequestContext) -> None:
        check_response_numbers(
            context.tokens * self.model.config.hidden_size, self.model.settings.max_values
        )


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes /tokens and /embed_all."""
    models = registry.choice(TokenVectorService, "embed")
    routes = api_router("tokens")

    @routes.post(
        "/tokens",
        summary="Embed tokens, spans or chunks",
        response_model=TokensResponse,
        responses=route_responses(binary=True),
    )
    async def tokens(context: RequestDep, body: TokensRequest) -> TokensResponse | BinaryResponse:
        return await models.choose(body.model, body.task).tokens(context, body)

    @routes.post("/embed_all", summary="Embed tokens (TEI)")
    async def embed_all(context: RequestDep, body: EmbedAllRequest) -> list[Matrix]:
        service = models.choose(body.model, body.task)
        inputs, options = input_list(body.inputs), body.options_without_windows()
        return [as_lists(states) for states in await service.last_layer(context, inputs, options)]

    return routes
