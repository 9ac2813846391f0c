"""Positions in a text: spans of characters, the vectors of their tokens, and offsets in bytes."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np

from embedwell_models.errors import InputError
from embedwell_models.tokenizer.tokens import Token
from embedwell_models.vectors import Floats

Span = tuple[int, int]
"""Start and stop of a part of a text, in characters."""
SpanPooling = Literal["mean", "max"]
"""Method to combine the token vectors of a span or chunk into one vector."""


def check_spans(spans: Sequence[Sequence[Span]], texts: Sequence[str]) -> None:
    """Raise InputError unless each text has a list of spans that lie within the text."""
    if len(spans) != len(texts):
        raise InputError(
            f"spans has {len(spans)} lists, but there are {len(texts)} texts; give one list "
            "for each text",
            param="spans",
        )
    for index, (text, spans_of_text) in enumerate(zip(texts, spans, strict=True)):
        for start, stop in spans_of_text:
            if not 0 <= start < stop <= len(text):
                raise InputError(
                    f"span [{start}, {stop}) is empty or outside the text, which has "
                    f"{len(text)} characters",
                    param="spans",
                    index=index,
                )


def pool(vectors: Floats, method: SpanPooling) -> Floats:
    """Return the mean or maximum of each dimension: (T, D) -> (D,) for T of at least 1."""
    if method == "max":
        largest: Floats = vectors.max(axis=0)
        return largest
    # In float32 the sum of large numbers can overflow although their mean does not.
    mean: Floats = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    return mean


def pool_spans(
    states: Floats, tokens: Sequence[Token], spans: Sequence[Span], method: SpanPooling, index: int
) -> Floats:
    """Pool the tokens that overlap each span of text `index`: (T, D) -> (spans, D).

    Raises InputError for a span without tokens.
    """
    vectors = [pool(states[_overlapping(tokens, span, index)], method) for span in spans]
    return np.stack(vectors) if vectors else states[:0]


def tokens_below(limit: int, tokens: Sequence[Token], states: Floats) -> tuple[list[Token], Floats]:
    """Leave out tokens whose id is `limit` or more: further parts of a word, or unknown words."""
    chosen = [index for index, token in enumerate(tokens) if token.id < limit]
    return [tokens[index] for index in chosen], states[chosen]


def _overlapping(tokens: Sequence[Token], span: Span, index: int) -> list[int]:
    start, stop = span
    overlapping = [
        position
        for position, token in enumerate(tokens)
        if token.start is not None
        and token.stop is not None
        and token.start < stop
        and token.stop > start
    ]
    if not overlapping:
        raise InputError(
            f"span [{start}, {stop}) contains no token, because it is white space or was cut "
            "off; leave it out",
            code="empty_span",
            param="spans",
            index=index,
        )
    return overlapping


ByteOffsets = Mapping[int | None, int | None]


def byte_offsets(text: str, tokens: Iterable[Token]) -> ByteOffsets:
    """Map the start and stop of tokens to UTF-8 byte offsets; None stays None."""
    borders = {border for token in tokens for border in (token.start, token.stop)}
    offsets = sorted(border for border in borders if border is not None)
    # Encode only from one offset to the next: the rest of a text may be millions of characters.
    sizes = (len(text[start:stop].encode()) for start, stop in pairwise([0, *offsets]))
    return {None: None, **dict(zip(offsets, accumulate(sizes), strict=True))}
