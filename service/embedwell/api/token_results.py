"""Results of /tokens: vectors of tokens, spans and chunks, and their layout in a response."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedwell.api.array_format import (
    Array,
    EncodingFormat,
    OutputType,
    convert_vectors,
    encode_block,
    encode_rows,
)
from embedwell.api.binary_response import (
    JSON,
    BinaryResponse,
    binary_response,
    check_json_fields,
    preferred_media_type,
)
from embedwell.errors import BadRequest, ServiceError
from embedwell.inputs.chunks import ChunkedDocument
from embedwell.inputs.offsets import byte_offsets
from embedwell.inputs.span_pooling import SpanPooling
from embedwell.inputs.spans import Span, pool_spans
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.request.request_context import RequestContext
from embedwell_models.tokenizer.tokenizer import Token
from embedwell_models.vectors import Floats, normalize

ReadText = tuple[str, TokenizedInput, list[Token], Floats]
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
    row: TokenizedInput

    def truncation(self) -> dict[str, Any]:
        """Describe how many tokens of the input were cut off."""
        return {"truncated": self.row.dropped > 0, "dropped": self.row.dropped}


def only_ids_below(limit: int, read: ReadText) -> ReadText:
    """Leave out tokens whose id is `limit` or more: further parts of a word, or unknown words."""
    text, row, tokens, vectors = read
    shown = [index for index, token in enumerate(tokens) if token.id < limit]
    return text, row, [tokens[index] for index in shown], vectors[shown]


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
        pooled = pool_spans(vectors, tokens, text_spans, pooling, index)
        results.append(InputVectors("spans", items, pooled, row))
    return results


def chunk_vectors(
    index: int, document: ChunkedDocument, states: Floats, pooling: SpanPooling
) -> InputVectors:
    """Pool the tokens of a document's chunks; raises BadRequest for a chunk without tokens."""
    vectors = []
    for vector in document.pool(states, pooling):
        if isinstance(vector, ServiceError):
            raise BadRequest(vector.message, code=vector.code, param="chunks", index=index)
        vectors.append(vector)
    items = [row.as_json() for row in document.chunk_inputs()]
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

    def result(self, vectors: InputVectors, index: int) -> dict[str, Any]:
        """Format the vectors of one input for JSON."""
        values = self._values(vectors, index)
        if self.block:
            embeddings = encode_block(values, self.encoding_format)
            block = {"shape": values.shape, "embeddings": embeddings}
            return {vectors.kind: vectors.items, **block, **vectors.truncation()}
        rows = zip(vectors.items, encode_rows(values, self.encoding_format), strict=True)
        items = [{**item, "embedding": embedding} for item, embedding in rows]
        return {vectors.kind: items, **vectors.truncation()}

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
