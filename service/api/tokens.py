"""POST /tokens and /embed_all: a vector for each token, of any layer, and for parts of a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import Discriminator, NonNegativeInt, Tag

from models.config.encoder_config import EncoderConfig
from models.tokenizer.tokenizer import Token
from models.vectors import Floats
from service.api.array_format import Encoding, OutputType
from service.api.body import FIRST, HostedBody, Inputs, ReadingBody, Texts, batch, example, texts_of
from service.api.openapi_responses import documented
from service.api.router import Context, api_router
from service.api.schemas.common import Matrix
from service.api.schemas.tokens import TokensAnswer
from service.api.token_layout import Found, Layout
from service.errors import BadRequest, ServiceError
from service.inference.pipeline import Pipeline
from service.inputs.chunks import ChunkedDocument
from service.inputs.offsets import byte_offsets
from service.inputs.options import InputOptions, Text
from service.inputs.pools import Pool
from service.inputs.spans import Span, check_spans, pool_spans
from service.inputs.tokenized_input import TokenizedInput
from service.request.limits import check_values
from service.request.request_context import RequestContext
from service.request.run_in_thread import run_in_thread


def _depth(value: Any) -> str:
    return "<part>" if isinstance(value, str) else "<count>"


Part = Literal["input", "token", "position", "segment"]
Depth = Annotated[
    Annotated[NonNegativeInt, Tag("<count>")] | Annotated[Part, Tag("<part>")],
    Discriminator(_depth),
]
Spans = Annotated[list[Span], FIRST]
Read = tuple[
    str, TokenizedInput, list[Token], Floats
]  # a text, its row and tokens, and their vectors


class TokensRequest(ReadingBody):
    """inputs: a text or texts. Or chunks: for each text, the consecutive parts that it is cut into.

    layer: how many layers to apply (all by default), the input, or a summand of it. spans: for each
    of inputs, [start, stop) characters. Spans and chunks are pooled to one vector each, of the
    tokens that they touch, computed with the whole text in view: late chunking. layout: each vector
    with its token, or those of a text in one block.
    """

    model_config = example(
        {"inputs": ["one", "two"], "layer": 0, "layout": "block", "encoding_format": "base64"},
        {"chunks": [["One chunk.", "And another."]], "pooling": "max", "normalize": True},
        inputs="Hello, world",
        spans=[[[0, 5]]],
    )

    inputs: Texts | None = None
    chunks: Annotated[list[Annotated[list[str], FIRST]], FIRST] | None = None
    layer: Depth | None = None
    spans: Annotated[list[Spans], FIRST] | None = None
    pooling: Pool = "mean"
    normalize: bool = False
    encoding_format: Encoding = "float"
    output_dtype: OutputType = "float32"
    layout: Literal["tokens", "block"] = "tokens"


class EmbedAllRequest(HostedBody):
    """TEI's request. inputs: a text, its token ids, or a list of either."""

    model_config = example({"inputs": [[101, 7592, 102], "one"]}, inputs="Hello, world")

    inputs: Inputs


@dataclass(frozen=True)
class Tokens:
    """What every route of token vectors does."""

    pipeline: Pipeline
    config: EncoderConfig
    max_values: int

    async def tokens(self, context: RequestContext, body: TokensRequest) -> Any:
        layer = _layer(body.layer, self.config)
        found = await self._found(context, body, layer)
        layout = Layout(
            body.layout == "block", body.normalize, body.output_dtype, body.encoding_format
        )
        if answer := layout.raw(context, found):
            return answer
        results = [layout.lay(each, index) for index, each in enumerate(found)]
        return {"layer": layer, "dtype": body.output_dtype, "results": results}

    async def last(
        self, context: RequestContext, inputs: Sequence[Text], reading: InputOptions
    ) -> list[Floats]:
        """The vectors of all tokens after the last layer: B times (length, D)."""
        rows = await self.pipeline.reader.read(context, inputs, reading)
        return await self._states(context, rows, self.config.num_layers)

    async def _found(
        self, context: RequestContext, body: TokensRequest, layer: int | str
    ) -> list[Found]:
        if body.inputs is not None and body.chunks is None:
            return await self._texts(context, texts_of(body.inputs), body, layer)
        if body.chunks is None or body.inputs is not None:
            raise BadRequest("give either inputs or chunks", param="inputs")
        if body.spans is not None:
            raise BadRequest("spans go with inputs", param="spans")
        return await self._chunks(context, body.chunks, body, layer)

    async def _texts(
        self, context: RequestContext, texts: list[str], body: TokensRequest, layer: int | str
    ) -> list[Found]:
        if body.spans is not None:
            check_spans(body.spans, texts)
            spans = sum(map(len, body.spans))
            check_values(spans * self.config.hidden_size, self.max_values)
            context.memory.grow_by_numbers(spans * self.config.hidden_size)
        rows, described = await self.pipeline.reader.describe(context, texts, body.whole())
        states = await self._states(context, rows, layer)
        read = list(zip(texts, rows, described, states, strict=True))
        if body.spans is not None:  # there may be thousands: beside the event loop
            work = partial(_spanned, read, body.spans, body.pooling)
            return await run_in_thread(work, small=False)
        return [
            Found("tokens", _described(text, tokens), vectors, _about(row))
            for text, row, tokens, vectors in read
        ]

    async def _chunks(
        self,
        context: RequestContext,
        chunks: list[list[str]],
        body: TokensRequest,
        layer: int | str,
    ) -> list[Found]:
        size, documents = sum(len(text) for texts in chunks for text in texts), []
        whole = body.whole()
        for index, texts in enumerate(chunks):
            documents.append(await self._document(context, index, texts, whole, size))
            self._check(context)
        if not documents:
            raise BadRequest("give at least one text", code="no_input", param="chunks")
        states = await self._states(context, [document.row for document in documents], layer)
        return [
            _chunked(index, document, vectors, body.pooling)
            for index, (document, vectors) in enumerate(zip(documents, states, strict=True))
        ]

    async def _document(
        self,
        context: RequestContext,
        index: int,
        chunks: list[str],
        reading: InputOptions,
        size: int,
    ) -> ChunkedDocument:
        try:
            return await self.pipeline.reader.document(context, chunks, reading, size)
        except BadRequest as error:
            if error.param is None:  # it is of a chunk; here a document is an input
                error.param, error.index = "chunks", index
            raise

    async def _states(
        self, context: RequestContext, rows: list[TokenizedInput], layer: str | int
    ) -> list[Floats]:
        self._check(context)
        context.memory.grow_by_numbers(context.tokens * self.config.hidden_size)
        return await self.pipeline.hidden(context, rows, layer)

    def _check(self, context: RequestContext) -> None:
        check_values(context.tokens * self.config.hidden_size, self.max_values)


def router(tokens: Tokens) -> APIRouter:
    """The routes of this module."""
    routes = api_router("tokens")

    @routes.post(
        "/tokens",
        summary="Token vectors",
        response_model=TokensAnswer,
        responses=documented(raw=True),
        name="tokens",
    )
    async def token_vectors(context: Context, body: TokensRequest) -> Any:
        return await tokens.tokens(context, body)

    @routes.post(
        "/embed_all",
        summary="Token vectors as TEI has them",
        response_model=list[Matrix],
        responses=documented(),
    )
    async def embed_all(context: Context, body: EmbedAllRequest) -> Any:
        return await tokens.last(context, batch(body.inputs), body.whole())

    return routes


def _layer(layer: int | str | None, config: EncoderConfig) -> int | str:
    if layer is None:
        return config.num_layers
    if layer == "input":
        return 0
    if isinstance(layer, int) and layer > config.num_layers:
        raise BadRequest(f"layer is {layer}, the model has {config.num_layers}", param="layer")
    if isinstance(layer, str) and layer not in config.parts:
        parts = ", ".join(config.parts)
        raise BadRequest(f"the model's input has no {layer} part, but {parts}", param="layer")
    return layer


def _spanned(read: Sequence[Read], spans: Sequence[Spans], how: Pool) -> list[Found]:
    found = []
    for index, ((_, row, tokens, vectors), wanted) in enumerate(zip(read, spans, strict=True)):
        items = [{"start": start, "stop": stop} for start, stop in wanted]
        pooled = pool_spans(vectors, tokens, wanted, how, index)
        found.append(Found("spans", items, pooled, _about(row)))
    return found


def _chunked(index: int, document: ChunkedDocument, states: Floats, how: Pool) -> Found:
    vectors = []
    for vector in document.pool(states, how):
        if isinstance(vector, ServiceError):
            raise BadRequest(vector.message, code=vector.code, param="chunks", index=index)
        vectors.append(vector)
    items = [row.as_json() for row in document.rows()]
    return Found("chunks", items, np.stack(vectors), _about(document.row))


def _about(row: TokenizedInput) -> dict[str, Any]:
    return {"truncated": row.dropped > 0, "dropped": row.dropped}


def _described(text: str, tokens: list[Token]) -> list[dict[str, Any]]:
    byte = byte_offsets(text, tokens)
    return [
        {
            "id": token.id,
            "text": token.text,
            "special": token.special,
            "start": token.start,
            "stop": token.stop,
            "start_byte": byte[token.start],
            "stop_byte": byte[token.stop],
        }
        for token in tokens
    ]
