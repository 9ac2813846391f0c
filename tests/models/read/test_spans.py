"""Tests of spans, and of offsets in bytes."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedwell_models.errors import InputError
from embedwell_models.read.spans import byte_offsets, check_spans, pool, pool_spans
from embedwell_models.tokenizer.tokens import Token


def token(start: int | None, stop: int | None) -> Token:
    return Token(1, "", special=False, start=start, stop=stop)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.data())
def test_a_byte_offset_is_the_encoded_length_of_the_text_before_it(
    text: str, data: st.DataObject
) -> None:
    border = st.none() | st.integers(0, len(text))
    borders = data.draw(st.lists(st.tuples(border, border)))
    offsets = byte_offsets(text, [token(*border) for border in borders])
    for index in (index for border in borders for index in border):
        assert offsets[index] == (None if index is None else len(text[:index].encode()))


def test_a_text_of_millions_of_characters_is_encoded_once() -> None:
    text, steps = "wörd " * 800_000, 0

    def count(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        nonlocal steps
        steps += 1
        return count

    sys.settrace(count)
    try:
        byte_offsets(text, [token(None, None), token(0, 4), token(5, len(text))])
    finally:
        sys.settrace(None)
    assert 0 < steps < 1000


def test_a_span_has_the_tokens_that_overlap_it_and_no_neighbours() -> None:
    states = np.arange(3, dtype=np.float32)[:, None]
    tokens = [token(0, 2), token(2, 4), token(4, 6)]
    pooled = pool_spans(states, tokens, [(0, 2), (2, 4), (1, 3), (3, 6)], "mean", 0)
    assert pooled[:, 0].tolist() == [0, 1, 0.5, 1.5]


def test_a_span_lies_within_its_text() -> None:
    check_spans([[(0, 3), (2, 3)]], ["abc"])
    for span in ((2, 4), (2, 2), (-1, 2)):
        with pytest.raises(InputError, match="empty or outside the text"):
            check_spans([[span]], ["abc"])


def test_the_mean_of_large_numbers_does_not_overflow() -> None:
    assert pool(np.full((4, 1), 3e38, dtype=np.float32), "mean").tolist() == [np.float32(3e38)]
