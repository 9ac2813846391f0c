"""Spans of characters, and the tokens that touch them."""

from collections.abc import Sequence

import numpy as np
from pydantic import NonNegativeInt

from models.tokenizer.tokenizer import Token
from models.vectors import Floats
from service.errors import BadRequest
from service.inputs.pools import Pool, pool

Span = tuple[NonNegativeInt, NonNegativeInt]


def check_spans(spans: Sequence[Sequence[Span]], texts: Sequence[str]) -> None:
    """Raises BadRequest unless each text has a list of spans inside of it."""
    if len(spans) != len(texts):
        raise BadRequest(
            f"spans has {len(spans)} lists, there are {len(texts)} texts", param="spans"
        )
    for index, (text, spans_of_text) in enumerate(zip(texts, spans, strict=True)):
        for start, stop in spans_of_text:
            if not start < stop <= len(text):
                raise BadRequest(
                    f"span [{start}, {stop}) is empty or outside of the text of {len(text)} "
                    "characters",
                    param="spans",
                    index=index,
                )


def pool_spans(
    states: Floats, tokens: Sequence[Token], spans: Sequence[Span], how: Pool, index: int
) -> Floats:
    """A vector for each span of text `index`, of the tokens that touch it: (T, D) -> (spans, D)."""
    touched = [pool(states[_tokens_in_span(tokens, span, index)], how) for span in spans]
    return np.stack(touched) if touched else states[:0]


def _tokens_in_span(tokens: Sequence[Token], span: Span, index: int) -> list[int]:
    start, stop = span
    touched = [
        place
        for place, token in enumerate(tokens)
        if token.start is not None
        and token.stop is not None
        and token.start < stop
        and token.stop > start
    ]
    if not touched:
        raise BadRequest(
            f"span [{start}, {stop}) holds no token: it is white space or was cut off",
            code="empty_span",
            param="spans",
            index=index,
        )
    return touched
