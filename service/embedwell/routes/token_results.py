"""Results of /tokens: vectors of tokens, spans and chunks, as JSON or bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, cast

import numpy as np
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.errors import BadRequest, service_errors
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.response_body import (
    JSON,
    Array,
    BinaryResponse,
    EncodingFormat,
    Matrix,
    OutputType,
    Vector,
    binary_response,
    check_json_fields,
    convert_vectors,
    encode_block,
    encode_rows,
    preferred_media_type,
)
from embedwell_models.errors import InputError
from embedwell_models.read.chunks import ChunkedDocument
from embedwell_models.read.inputs import InputRow
from embedwell_models.read.spans import Span, SpanPooling, byte_offsets, pool_spans, tokens_below
from embedwell_models.tokenizer.tokens import Token
from embedwell_models.vectors import Floats, normalize


@forbid_extra
class WithEmbedding(TypedDict):
    """Item with its vector.

    - `embedding`: the vector: numbers, or their bytes in base64; absent in layout block.
    """

    embedding: NotRequired[Vector]


@forbid_extra
class TokenPlace(WithEmbedding):
    """Offsets of a token in characters and bytes of the text; null for a special token.

    - `in_vocabulary`: false for an unknown word or a part of one. In a table of word vectors, the
      vector of an unknown word is the mean of its n-grams' vectors, or zeros.
    - `id`: id of the token in the vocabulary.
    - `text`: the token's part of the text, or its name if it is special.
    - `special`: whether the model adds the token, such as `[CLS]`.
    - `start`: first character of the token in the text, from 0.
    - `stop`: character after the last one of the token.
    - `start_byte`: first byte of the token in the text in UTF-8, from 0.
    - `stop_byte`: byte after the last one of the token.
    """

    id: NonNegativeInt
    text: str
    special: bool
    in_vocabulary: bool
    start: NonNegativeInt | None
    stop: NonNegativeInt | None
    start_byte: NonNegativeInt | None
    stop_byte: NonNegativeInt | None


@forbid_extra
class SpanPlace(WithEmbedding):
    """Place of a span in its text.

    - `start`: first character of the span, from 0.
    - `stop`: character after the last one of the span.
    """

    start: NonNegativeInt
    stop: NonNegativeInt


@forbid_extra
class ChunkPlace(WithEmbedding):
    """Token count of a chunk.

    - `tokens`: number of tokens of the chunk.
    """

    tokens: NonNegativeInt
    truncated: bool
    dropped: NonNegativeInt


@forbid_extra
class Block(TypedDict):
    """Result of one input.

    - `truncated`: whether tokens were cut off because the text was too long.
    - `shape`: rows and columns of `embeddings`; only in layout block.
    - `embeddings`: all vectors of the input, in base64 one after the other; only in layout block.
    """

    truncated: bool
    dropped: NonNegativeInt
    shape: NotRequired[list[NonNegativeInt]]
    embeddings: NotRequired[Matrix | str]


@forbid_extra
class TextTokens(Block):
    """The tokens of a text.

    - `tokens`: the tokens, in the order of the text.
    """

    tokens: list[TokenPlace]


@forbid_extra
class TextSpans(Block):
    """The spans of a text.

    - `spans`: the spans, in the request's order.
    """

    spans: list[SpanPlace]


@forbid_extra
class TextChunks(Block):
    """The chunks of a text.

    - `chunks`: the chunks, in the request's order.
    """

    chunks: list[ChunkPlace]


@forbid_extra
class TokensResponse(TypedDict):
    """Response of /tokens.

    - `layer`: number of layers that were applied, or the part of the input.
    - `dtype`: number type of the vectors.
    - `results`: the vectors of each text, in the request's order.
    """

    layer: NonNegativeInt | str
    dtype: str
    results: list[TextTokens | TextSpans | TextChunks]


ReadText = tuple[str, InputRow, list[Token], Floats]
"""A text, its row, its tokens, and their vectors (T, D)."""


@dataclass(frozen=True, slots=True)
class InputVectors:
    """The vectors of one input, (rows, D), with an item that describes each row.

    kind: field name of the items: tokens, spans or chunks.
    row: the tokenized input.
    """

    kind: str
    items: list[dict[str, Any]]
    vectors: Floats
    row: InputRow

    def truncation(self) -> dict[str, bool | int]:
        """Describe how many tokens of the input were cut off."""
        return {"truncated": self.row.dropped > 0, "dropped": self.row.dropped}


def only_ids_below(limit: int, read: ReadText) -> ReadText:
    """Leave out tokens whose id is `limit` or more: further parts of a word, or unknown words."""
    text, row, tokens, vectors = read
    return text, row, *tokens_below(limit, tokens, vectors)


def token_vectors(read: ReadText, in_vocabulary: Callable[[int], bool]) -> InputVectors:
    """Return the vectors of all tokens of a text.

    in_vocabulary: returns whether an id is in the vocabulary.
    """
    text, row, tokens, vectors = read
    to_byte = byte_offsets(text, tokens)
    items = [
        {
            "id": token.id,
            "text": token.text,
            "special": token.special,
            "in_vocabulary": in_vocabulary(token.id),
            "start": token.start,
            "stop": token.stop,
            "start_byte": to_byte[token.start],
            "stop_byte": to_byte[token.stop],
        }
        for token in tokens
    ]
    return InputVectors("tokens", items, vectors, row)


def span_vectors(
    texts: Sequence[ReadText], spans: Sequence[Sequence[Span]], pooling: SpanPooling
) -> list[InputVectors]:
    """Pool the tokens of each text's spans; raises BadRequest for a span without tokens."""
    results = []
    for index, ((_, row, tokens, vectors), text_spans) in enumerate(zip(texts, spans, strict=True)):
        items = [{"start": start, "stop": stop} for start, stop in text_spans]
        with service_errors():
            pooled = pool_spans(vectors, tokens, text_spans, pooling, index)
        results.append(InputVectors("spans", items, pooled, row))
    return results


def chunk_vectors(
    index: int, document: ChunkedDocument, states: Floats, pooling: SpanPooling
) -> InputVectors:
    """Pool the tokens of a document's chunks; raises BadRequest for a chunk without tokens."""
    vectors = []
    for vector in document.pool(states, pooling):
        if isinstance(vector, InputError):
            raise BadRequest(str(vector), code=vector.code, param="chunks", index=index)
        vectors.append(vector)
    items = [
        {"tokens": row.tokens, "truncated": row.dropped > 0, "dropped": row.dropped}
        for row in document.chunk_inputs()
    ]
    return InputVectors("chunks", items, np.stack(vectors), document.row)


@dataclass(frozen=True, slots=True)
class ResultFormat:
    """Number type and layout of results.

    block: return an input's vectors as one array instead of one vector in each item.
    """

    block: bool
    normalize: bool
    dtype: OutputType
    encoding_format: EncodingFormat

    def result(self, vectors: InputVectors, index: int) -> TextTokens | TextSpans | TextChunks:
        """Format the vectors of one input for JSON."""
        values = self._values(vectors, index)
        if self.block:
            embeddings = encode_block(values, self.encoding_format)
            block = {"shape": values.shape, "embeddings": embeddings}
            fields = {vectors.kind: vectors.items, **block, **vectors.truncation()}
        else:
            rows = zip(vectors.items, encode_rows(values, self.encoding_format), strict=True)
            items = [{**item, "embedding": embedding} for item, embedding in rows]
            fields = {vectors.kind: items, **vectors.truncation()}
        return cast("TextTokens | TextSpans | TextChunks", fields)

    def binary_response(
        self, context: RequestContext, inputs: Sequence[InputVectors]
    ) -> BinaryResponse | None:
        """Return the bytes of the only input's vectors; None if the client accepts JSON.

        Raises BadRequest for several inputs, and for fields that need JSON.
        """
        if preferred_media_type(context.accept) == JSON:
            return None
        check_json_fields(
            context, layout=self.block, encoding_format=self.encoding_format != "float"
        )
        if len(inputs) > 1:
            raise BadRequest(
                "a binary response holds the token vectors of one text: send one text at a "
                "time, or accept application/json with layout block"
            )
        return binary_response(context, self._values(inputs[0], 0))

    def _values(self, result: InputVectors, index: int) -> Array:
        vectors = normalize(result.vectors) if self.normalize else result.vectors
        return convert_vectors(vectors, self.dtype, index)
