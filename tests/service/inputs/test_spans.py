"""Tests of offsets in bytes."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from embedwell.inputs.spans import byte_offsets
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
