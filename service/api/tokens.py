"""POST /tokens and /embed_all: a vector for each token, of any layer, and for spans of a text."""

from typing import Any, Literal

import numpy as np
from pydantic import NonNegativeInt

from models.config import EncoderConfig
from models.tokenizer import Token
from models.vectors import Floats, normalize
from service.api.body import ReadingBody, Texts, example, texts_of
from service.api.embed import Encoding, express
from service.api.operation import Operation
from service.call import Call
from service.errors import BadRequest
from service.limits import check_values
from service.pipeline import Pipeline
from service.row import Row

Span = tuple[NonNegativeInt, NonNegativeInt]
Part = Literal["token", "position", "segment"]


class TokensRequest(ReadingBody):
    """inputs: a text or texts. layer: how many layers to apply (all by default), or a summand.

    spans: for each text, [start, stop) characters to pool into one vector each (the mean of the
    tokens that touch them), computed with the whole text in view: late chunking.
    """

    model_config = example(inputs="Hello, world", spans=[[[0, 5]]])

    inputs: Texts
    layer: NonNegativeInt | Part | None = None
    spans: list[list[Span]] | None = None
    normalize: bool = False
    encoding_format: Encoding = "float"


class EmbedAllRequest(ReadingBody):
    """TEI's request."""

    model_config = example(inputs="Hello, world")

    inputs: Texts


def operations(pipeline: Pipeline, config: EncoderConfig, max_values: int) -> list[Operation[Any]]:
    """The operations of this module."""

    async def tokens(call: Call, body: TokensRequest) -> Any:
        texts = texts_of(body.inputs)
        layer = _layer(body.layer, config.num_layers)
        spans = _spans(body.spans, texts)
        rows, described = await pipeline.reader.describe(call, texts, body.reading())
        states = await _states(call, rows, layer)
        results = [
            _result(vectors, found, wanted, body)
            for vectors, found, wanted in zip(states, described, spans, strict=True)
        ]
        return {"layer": layer, "results": results}

    async def embed_all(call: Call, body: EmbedAllRequest) -> Any:
        rows = await pipeline.reader.read(call, texts_of(body.inputs), body.reading())
        return await _states(call, rows, config.num_layers)

    async def _states(call: Call, rows: list[Row], layer: str | int) -> list[Floats]:
        check_values(call.tokens * config.hidden_size, max_values)
        return await pipeline.hidden(call, rows, layer)

    return [
        Operation("/tokens", TokensRequest, tokens, "Token vectors", "tokens"),
        Operation(
            "/embed_all", EmbedAllRequest, embed_all, "Token vectors as TEI has them", "tokens"
        ),
    ]


def _layer(layer: int | str | None, num_layers: int) -> int | str:
    if layer is None:
        return num_layers
    if isinstance(layer, int) and layer > num_layers:
        raise BadRequest(f"layer is {layer}, the model has {num_layers}", param="layer")
    return layer


def _spans(spans: list[list[Span]] | None, texts: list[str]) -> list[list[Span] | None]:
    if spans is None:
        return [None] * len(texts)
    if len(spans) != len(texts):
        raise BadRequest(
            f"spans has {len(spans)} lists, there are {len(texts)} texts", param="spans"
        )
    for index, (text, wanted) in enumerate(zip(texts, spans, strict=True)):
        for start, stop in wanted:
            if not start < stop <= len(text):
                raise BadRequest(
                    f"span [{start}, {stop}) is empty or outside of the text of {len(text)} "
                    "characters",
                    param="spans",
                    index=index,
                )
    return list(spans)


def _result(
    vectors: Floats, tokens: list[Token], spans: list[Span] | None, body: TokensRequest
) -> dict[str, Any]:
    if spans is None:
        shown = _express(vectors, body)
        return {
            "tokens": [_describe(t, v) for t, v in zip(tokens, shown, strict=True)],
        }
    pooled = np.stack([_pool(vectors, tokens, span) for span in spans]) if spans else vectors[:0]
    found = zip(spans, _express(pooled, body), strict=True)
    return {"spans": [{"start": s[0], "stop": s[1], "embedding": v} for s, v in found]}


def _express(vectors: Floats, body: TokensRequest) -> Any:
    return express(normalize(vectors) if body.normalize else vectors, body.encoding_format)


def _pool(vectors: Floats, tokens: list[Token], span: Span) -> Floats:
    start, stop = span
    touched = [
        index
        for index, token in enumerate(tokens)
        if token.start is not None
        and token.stop is not None
        and token.start < stop
        and token.stop > start
    ]
    if not touched:
        raise BadRequest(
            f"span [{start}, {stop}) holds no token: it is white space or was truncated",
            code="empty_span",
            param="spans",
        )
    pooled: Floats = vectors[touched].mean(axis=0)
    return pooled


def _describe(token: Token, vector: Any) -> dict[str, Any]:
    return {
        "id": token.id,
        "text": token.text,
        "special": token.special,
        "start": token.start,
        "stop": token.stop,
        "embedding": vector,
    }
