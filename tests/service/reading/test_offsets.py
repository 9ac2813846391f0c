"""Tests of where tokens stand among bytes."""

import time

from hypothesis import given
from hypothesis import strategies as st

from models.tokenizer import Token
from service.reading.offsets import bytes_of


def token(start: int | None, stop: int | None) -> Token:
    return Token(1, "", special=False, start=start, stop=stop)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.data())
def test_a_border_stands_behind_the_bytes_of_all_before_it(text: str, data: st.DataObject) -> None:
    border = st.none() | st.integers(0, len(text))
    borders = data.draw(st.lists(st.tuples(border, border)))
    found = bytes_of(text, [token(*each) for each in borders])
    for index in (index for each in borders for index in each):
        assert found[index] == (None if index is None else len(text[:index].encode()))


def test_a_text_of_millions_of_characters_is_not_counted_one_by_one() -> None:
    text, seconds = "wörd " * 800_000, []
    for _ in range(5):
        start = time.perf_counter()
        bytes_of(text, [token(None, None), token(0, 4), token(5, len(text))])
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.1
