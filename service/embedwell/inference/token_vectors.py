"""Vectors of the tokens, spans or chunks of an input, each with a description."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedwell.errors import BadRequest, ServiceError
from embedwell.inputs.chunks import ChunkedDocument
from embedwell.inputs.input_row import InputRow
from embedwell.inputs.offsets import byte_offsets
from embedwell.inputs.spans import Span, SpanPooling, pool_spans
from embedwell_models.tokenizer.tokenizer import Token
from embedwell_models.vectors import Floats

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
    items = [
        {"tokens": row.tokens, "truncated": row.dropped > 0, "dropped": row.dropped}
        for row in document.chunk_inputs()
    ]
    return InputVectors("chunks", items, np.stack(vectors), document.row)
