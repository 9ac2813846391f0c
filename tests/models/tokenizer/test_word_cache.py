"""Tests of looking words up, against the tokenizer that reads each text as a whole."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers

from models.tokenizer.loading import loader
from models.tokenizer.word_cache import CachingTokenizer, UncachedTokenizer, fastest_tokenizer
from tests.models import kinds

CLS, SEP = 101, 102
# Every kind of border: spaces that separate, controls that vanish, marks, signs, joined scripts.
PIECES = st.one_of(
    st.sampled_from(["the", "Work", "don't", "café", "ÅNGSTRÖM", "東京", "ſ", "İ", "x" * 120]),
    st.sampled_from(["[MASK]", "[SEP]", "[mask]", "[", "]", "##s", "-", "_", "^", "\\", "—", "。"]),
    st.sampled_from(
        [" ", "\t", "\n", "\r", "\x00", "\x0b", "\x1c", "\x7f", "\x85", "\xa0", "\u3000"]
    ),
    st.sampled_from(
        ["\u0301", "\u0338", "\u200d", "\ufeff", "\ufffd", "㐀", "豈", "ー", "が", "한", "😀"]
    ),
    st.characters(codec="utf-8"),
)
TEXT = st.lists(PIECES, max_size=30).map("".join)
CASED = {"lowercase": False}
ACCENTED = {"strip_accents": False}
RAW = {"clean_text": False}
OPTIONS: list[dict[str, bool]] = [{}, CASED, ACCENTED, CASED | ACCENTED, RAW]


@pytest.fixture(scope="module")
def rust(minilm_folder: Path) -> Tokenizer:
    return loader.load(minilm_folder).rust


@pytest.fixture
def other(minilm_folder: Path) -> Tokenizer:
    """The same, to be changed."""
    return loader.load(minilm_folder).rust


@pytest.fixture(scope="module", params=OPTIONS, ids=str)
def optional(request: pytest.FixtureRequest, minilm_folder: Path) -> Tokenizer:
    found = loader.load(minilm_folder).rust
    found.normalizer = normalizers.BertNormalizer(**request.param)
    return found


@given(text=TEXT)
@example(text="a\x0bb a\x1cb a\x85b a\xa0b a\u2028b")
@pytest.mark.full(after=1)
def test_ids_are_those_of_the_whole_text(optional: Tokenizer, text: str) -> None:
    found = fastest_tokenizer(optional, [CLS], [SEP])
    assert isinstance(found, CachingTokenizer)
    assert found.encode([text] * 5) == UncachedTokenizer(optional).encode(
        [text] * 5
    )  # its words are known at last


def test_ids_of_prose_are_those_of_the_whole_text(rust: Tokenizer, texts: list[str]) -> None:
    found = [*texts, kinds.PROSE, *kinds.PROSE.splitlines()]
    wordwise, expected = CachingTokenizer(rust, [CLS], [SEP]), UncachedTokenizer(rust).encode(found)
    for _ in range(20):
        assert wordwise.encode(found) == expected


def test_small_letters_made_first_change_nothing(other: Tokenizer) -> None:
    other.normalizer = normalizers.Sequence([normalizers.Lowercase(), other.normalizer])
    found = fastest_tokenizer(other, [CLS], [SEP])
    assert isinstance(found, CachingTokenizer)
    assert found.encode(["ISTANBUL İΣ"]) == UncachedTokenizer(other).encode(["ISTANBUL İΣ"])


def test_an_added_token_is_found_inside_of_a_word(other: Tokenizer) -> None:
    other.add_tokens([AddedToken("ense", normalized=False)])
    found = fastest_tokenizer(other, [CLS], [SEP])
    assert isinstance(found, CachingTokenizer)
    assert other.token_to_id("ense") in found.encode(["license"])[0]
    assert found.encode(["license"]) == UncachedTokenizer(other).encode(["license"])


def test_a_tokenizer_without_added_tokens_looks_words_up() -> None:
    raw = {**json.loads(kinds.text("wordpiece")), "added_tokens": [], "post_processor": None}
    bare = Tokenizer.from_str(json.dumps(raw))
    found = fastest_tokenizer(bare, [], [])
    assert isinstance(found, CachingTokenizer)
    assert found.encode(["the work"]) == UncachedTokenizer(bare).encode(["the work"])
    assert "work" in found.cache


def test_without_special_tokens_there_are_none(other: Tokenizer) -> None:
    other.post_processor = None
    found = fastest_tokenizer(other, [], [])
    assert isinstance(found, CachingTokenizer)
    assert found.encode(["", "the work"]) == [[], [1996, 2147]]


@pytest.mark.parametrize("kind", sorted(set(kinds.BUILDERS) - {"wordpiece"}))
def test_another_kind_of_tokenizer_reads_the_whole_text(kind: str) -> None:
    assert isinstance(
        fastest_tokenizer(Tokenizer.from_str(kinds.text(kind)), [], []), UncachedTokenizer
    )


def _strips(rust: Tokenizer) -> None:
    rust.normalizer = normalizers.Sequence([normalizers.NFC(), rust.normalizer])


def _unchinese(rust: Tokenizer) -> None:
    rust.normalizer = normalizers.BertNormalizer(handle_chinese_chars=False)


def _digits(rust: Tokenizer) -> None:
    parts = [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Digits()]
    rust.pre_tokenizer = pre_tokenizers.Sequence(parts)


def _unsplit(rust: Tokenizer) -> None:
    rust.pre_tokenizer = None


def _raw(rust: Tokenizer) -> None:
    rust.normalizer = None


def _normalized(rust: Tokenizer) -> None:
    rust.add_tokens([AddedToken("two words", normalized=True)])


@pytest.mark.parametrize("change", [_strips, _unchinese, _digits, _unsplit, _raw, _normalized])
def test_a_step_that_may_look_across_words_reads_the_whole_text(
    other: Tokenizer, change: Callable[[Tokenizer], None]
) -> None:
    change(other)
    assert isinstance(fastest_tokenizer(other, [CLS], [SEP]), UncachedTokenizer)


def test_a_frame_that_is_not_that_of_every_text_reads_the_whole_text(rust: Tokenizer) -> None:
    assert isinstance(fastest_tokenizer(rust, [CLS], []), UncachedTokenizer)


def test_a_word_is_tokenised_once(rust: Tokenizer) -> None:
    found = CachingTokenizer(rust, [CLS], [SEP])
    found.encode(["the work"])
    found.cache["work"] = [7]
    assert found.encode(["work, the work"]) == [[CLS, 7, 1010, 1996, 7, SEP]]


def test_no_more_words_are_remembered_than_were_asked_for(rust: Tokenizer) -> None:
    found = CachingTokenizer(rust, [CLS], [SEP], max_words=3)
    texts = ["one two", "three four", "five six one"]
    assert found.encode(texts) == UncachedTokenizer(rust).encode(texts)
    assert list(found.cache) == ["five", "six", "one"]


def test_a_text_with_many_new_words_is_read_as_a_whole_and_some_are_remembered(
    rust: Tokenizer,
) -> None:
    found = CachingTokenizer(rust, [CLS], [SEP])
    new = [f"{letter}ense" for letter in "abcdefghijklmnopqrst"]
    texts = ["the work", " ".join(new), "of the license"]
    for known in (8, 16, 20):
        assert found.encode(texts) == UncachedTokenizer(rust).encode(texts)
        assert len(found.cache.keys() & set(new)) == known


def test_what_is_long_is_not_looked_up(rust: Tokenizer) -> None:
    found = CachingTokenizer(rust, [CLS], [SEP])
    found.cache["the"] = [7]
    assert found.encode(["the"]) == [[CLS, 7, SEP]]
    assert found.encode(["the " * 5001]) == [[CLS, *[1996] * 5001, SEP]]
    found.encode(["x" * 25, "y" * 24])
    assert list(found.cache) == ["the", "y" * 24]
