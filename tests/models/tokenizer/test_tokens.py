"""Tests of which tokens remain of a text that is too long."""

from hypothesis import given
from hypothesis import strategies as st

from embedwell_models.tokenizer.tokens import cut, parts, remaining_slice

LENGTHS = st.integers(0, 20)


@given(length=LENGTHS, count=LENGTHS)
def test_a_cut_keeps_the_tokens_at_the_other_side(length: int, count: int) -> None:
    ids = list(range(length))
    first, last = cut(ids, count, "right"), cut(ids, count, "left")
    assert len(first) == len(last) == min(length, count)
    assert [*first, *ids[len(first) :]] == [*ids[: length - len(last)], *last] == ids
    assert remaining_slice(length, count, "left").start == length - len(last)


@given(length=LENGTHS, size=st.integers(1, 20))
def test_parts_have_each_token_once_and_there_is_always_one(length: int, size: int) -> None:
    ids = list(range(length))
    split = [ids[part] for part in parts(length, size)]
    assert [id for part in split for id in part] == ids
    assert [len(part) for part in split[:-1]] == [size] * (len(split) - 1)
    assert len(split[-1]) <= size and (split[-1] or not ids)
