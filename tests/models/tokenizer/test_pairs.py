"""Pairs of texts as Hugging Face's tokenizers truncate and join them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as RustTokenizer

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.pairs import Pair, PairTokenizer
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side
from tests.models.shapes import shape
from tests.models.tiny import VOCABULARY, with_token, write_tokenizer

A, THE, CLS, SEP = VOCABULARY["a"], VOCABULARY["the"], VOCABULARY["[CLS]"], VOCABULARY["[SEP]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return folder


def config(two_segments: bool = False) -> EncoderConfig:
    return shape(vocab_size=len(VOCABULARY), two_segments=two_segments)


def encode(
    folder: Path,
    pairs: list[Pair],
    max_length: int,
    segments: bool = False,
    **options: Any,
) -> list[tuple[list[int], int]]:
    """Encode pairs; return their ids and the numbers of dropped tokens."""
    tokenizer = PairTokenizer(Tokenizer(folder, max_length), config(segments))
    rows = run_to_completion(tokenizer.encode(pairs, count_limit=float("inf"), **options))
    return [([*row.ids], row.dropped) for row in rows]


@given(
    first=st.integers(0, 30),
    second=st.integers(0, 30),
    max_length=st.integers(4, 40),
    side=st.sampled_from(["right", "left"]),
)
def test_the_longer_text_is_truncated_first_as_by_hugging_face(
    folder: Path, first: int, second: int, max_length: int, side: Side
) -> None:
    a, b = "a of " * first, "the by to " * second
    rust = RustTokenizer.from_file(str(folder / "tokenizer.json"))
    total = len(rust.encode(a, b).ids)
    rust.enable_truncation(max_length, direction=side)
    expected = rust.encode(a, b)
    ((ids, dropped),) = encode(folder, [(a, b)], max_length, side=side)
    assert (ids, dropped) == (expected.ids, total - len(expected.ids))
    ((in_segments, _),) = encode(folder, [(a, b)], max_length, True, side=side)
    size = len(VOCABULARY)
    assert [id // size for id in in_segments] == expected.type_ids
    assert [id % size for id in in_segments] == expected.ids


def test_the_length_of_one_first_text_is_not_taken_for_that_of_another(folder: Path) -> None:
    pairs: list[Pair] = [("a " * count, "the " * 20) for count in (19, 21, 21, 19)]
    together = encode(folder, pairs, 12, side="right")
    assert together == [encode(folder, [pair], 12, side="right")[0] for pair in pairs]
    assert together[0] != together[1]


def test_a_single_text_has_its_own_special_tokens_and_no_second_segment(folder: Path) -> None:
    pairs: list[Pair] = [("a", None), ("a", "the")]
    single, pair = encode(folder, pairs, 16, True)
    offset = len(VOCABULARY)
    assert single == ([CLS, A, SEP], 0)
    assert pair == ([CLS, A, SEP, THE + offset, SEP + offset], 0)


def test_only_so_many_tokens_of_the_second_text_are_read(folder: Path) -> None:
    ((ids, dropped),) = encode(folder, [("a", "the " * 9)], 64, max_second=2)
    assert (ids, dropped) == ([CLS, A, SEP, THE, THE, SEP], 7)


@given(first=st.integers(0, 30), second=st.integers(0, 30), side=st.sampled_from(["right", "left"]))
def test_a_shorter_limit_cuts_as_a_shorter_model_does(
    folder: Path, first: int, second: int, side: Side
) -> None:
    a, b = "a of " * first, "the by to " * second
    pairs: list[Pair] = [(a, b), (a, None)]
    tokenizer = PairTokenizer(Tokenizer(folder, 40), config()).with_max_length(12)
    rows = run_to_completion(tokenizer.encode(pairs, side, float("inf")))
    expected = encode(folder, pairs, 12, side=side)
    assert [([*row.ids], row.dropped) for row in rows] == expected
    assert tokenizer.min_length == 5


@pytest.mark.parametrize(("first", "second"), [(1, 50), (30, 50), (3, 0), (0, 5)])
def test_windows_hold_the_whole_second_text_next_to_the_first(
    folder: Path, first: int, second: int
) -> None:
    tokenizer = PairTokenizer(Tokenizer(folder, 19), config())
    windows = run_to_completion(tokenizer.windows("a " * first, "the " * second, 99))
    kept = min(first, 8)
    assert all(len(ids) <= 19 for ids in windows)
    assert all(ids[: kept + 2] == [CLS, *[A] * kept, SEP] for ids in windows)
    assert sum(ids.count(THE) for ids in windows) == second
    assert all(len(ids) == 19 for ids in windows[:-1])


def test_no_more_of_a_text_is_read_for_windows_than_the_limit_needs(folder: Path) -> None:
    tokenizer = PairTokenizer(Tokenizer(folder, 19, chunk_size=32), config())
    windows = run_to_completion(tokenizer.windows("a", "the " * 5000, 40))
    assert 40 < sum(ids.count(THE) for ids in windows) < 80


def test_ids_beyond_the_table_could_be_taken_for_those_of_the_second_segment(
    tmp_path: Path,
) -> None:
    write_tokenizer(tmp_path)
    tokenizer = Tokenizer(with_token(tmp_path, "extra"), 16)
    with pytest.raises(ModelError, match="ids up to"):
        PairTokenizer(tokenizer, config(two_segments=True))
    PairTokenizer(tokenizer, config())
