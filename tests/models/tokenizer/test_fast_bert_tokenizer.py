"""Tests of the word cache, against the tokenizer without it."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from embedwell_models.tokenizer.fast_bert_tokenizer import (
    CachingTokenizer,
    UncachedTokenizer,
    fastest_tokenizer,
)
from embedwell_models.tokenizer.loading import loader
from tests.models import kinds

CLS, SEP = 101, 102
# Every kind of border: spaces that separate, controls that vanish, marks, signs, joined scripts.
PARTS = st.one_of(
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
TEXT = st.lists(PARTS, max_size=30).map("".join)
CASED = {"lowercase": False}
ACCENTED = {"strip_accents": False}
RAW = {"clean_text": False}
OPTIONS: list[dict[str, bool]] = [{}, CASED, ACCENTED, CASED | ACCENTED, RAW]


@pytest.fixture(scope="module")
def rust(minilm_folder: Path) -> Tokenizer:
    return loader.load(minilm_folder).rust


@pytest.fixture
def modified(minilm_folder: Path) -> Tokenizer:
    """A tokenizer that the test changes."""
    return loader.load(minilm_folder).rust


@pytest.fixture(scope="module", params=OPTIONS, ids=str)
def with_options(request: pytest.FixtureRequest, minilm_folder: Path) -> Tokenizer:
    rust = loader.load(minilm_folder).rust
    rust.normalizer = normalizers.BertNormalizer(**request.param)
    return rust


@given(text=TEXT)
@example(text="a\x0bb a\x1cb a\x85b a\xa0b a\u2028b")
@pytest.mark.full(after=1)
def test_cached_ids_equal_those_of_the_tokenizer(with_options: Tokenizer, text: str) -> None:
    caching = fastest_tokenizer(with_options, [CLS], [SEP])
    assert isinstance(caching, CachingTokenizer)
    assert caching.encode([text] * 5) == UncachedTokenizer(with_options).encode(
        [text] * 5
    )  # five times, so that all words are cached


def test_cached_ids_of_prose_equal_those_of_the_tokenizer(
    rust: Tokenizer, texts: list[str]
) -> None:
    texts = [*texts, kinds.PROSE, *kinds.PROSE.splitlines()]
    caching, expected = CachingTokenizer(rust, [CLS], [SEP]), UncachedTokenizer(rust).encode(texts)
    for _ in range(20):
        assert caching.encode(texts) == expected


def test_lowercasing_before_the_normalizer_is_supported(modified: Tokenizer) -> None:
    modified.normalizer = normalizers.Sequence([normalizers.Lowercase(), modified.normalizer])
    caching = fastest_tokenizer(modified, [CLS], [SEP])
    assert isinstance(caching, CachingTokenizer)
    assert caching.encode(["ISTANBUL İΣ"]) == UncachedTokenizer(modified).encode(["ISTANBUL İΣ"])


def test_an_added_token_inside_a_word_is_matched(modified: Tokenizer) -> None:
    modified.add_tokens([AddedToken("ense", normalized=False)])
    caching = fastest_tokenizer(modified, [CLS], [SEP])
    assert isinstance(caching, CachingTokenizer)
    assert modified.token_to_id("ense") in caching.encode(["license"])[0]
    assert caching.encode(["license"]) == UncachedTokenizer(modified).encode(["license"])


def test_a_tokenizer_without_added_tokens_is_cached() -> None:
    raw = {**json.loads(kinds.text("wordpiece")), "added_tokens": [], "post_processor": None}
    bare = Tokenizer.from_str(json.dumps(raw))
    caching = fastest_tokenizer(bare, [], [])
    assert isinstance(caching, CachingTokenizer)
    assert caching.encode(["the work"]) == UncachedTokenizer(bare).encode(["the work"])
    assert "work" in caching.cache


def test_a_tokenizer_without_special_tokens_adds_none(modified: Tokenizer) -> None:
    modified.post_processor = None
    caching = fastest_tokenizer(modified, [], [])
    assert isinstance(caching, CachingTokenizer)
    assert caching.encode(["", "the work"]) == [[], [1996, 2147]]


@pytest.mark.parametrize("kind", sorted(set(kinds.BUILDERS) - {"wordpiece"}))
def test_other_kinds_of_tokenizers_are_not_cached(kind: str) -> None:
    assert isinstance(
        fastest_tokenizer(Tokenizer.from_str(kinds.text(kind)), [], []), UncachedTokenizer
    )


def _compose(rust: Tokenizer) -> None:
    rust.normalizer = normalizers.Sequence([normalizers.NFC(), rust.normalizer])


def _keep_chinese_words(rust: Tokenizer) -> None:
    rust.normalizer = normalizers.BertNormalizer(handle_chinese_chars=False)


def _split_digits(rust: Tokenizer) -> None:
    parts = [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Digits()]
    rust.pre_tokenizer = pre_tokenizers.Sequence(parts)


def _do_not_split(rust: Tokenizer) -> None:
    rust.pre_tokenizer = None


def _do_not_normalize(rust: Tokenizer) -> None:
    rust.normalizer = None


def _add_normalized_token(rust: Tokenizer) -> None:
    rust.add_tokens([AddedToken("two words", normalized=True)])


@pytest.mark.parametrize(
    "change",
    [
        _compose,
        _keep_chinese_words,
        _split_digits,
        _do_not_split,
        _do_not_normalize,
        _add_normalized_token,
    ],
)
def test_tokenizers_with_steps_that_may_look_across_words_are_not_cached(
    modified: Tokenizer, change: Callable[[Tokenizer], None]
) -> None:
    change(modified)
    assert isinstance(fastest_tokenizer(modified, [CLS], [SEP]), UncachedTokenizer)


ADDED = ["\n", "\t", " ", "a", "ab", "仦", "a仦", ".", "é", "[", "'", "[X]"]
PIECES = ["a", "A", "b", "é", "å", "仦", "東", "한", "豈", "ss", ".", ",", "-", "'", "[", "]"]
CHARACTERS = [*PIECES, *"\t\n\r \u3000\x00\x1c\x85\u0301\u200d", "Å", "İ", "ß", "[X]"]


def _bert(options: Mapping[str, Any], lowercase: str, added: Sequence[str]) -> Tokenizer:
    """A small BERT tokenizer. lowercase: where a second lowercasing step is: first, last or no."""
    pieces = ["[UNK]", *PIECES, *("##" + piece for piece in PIECES)]
    vocabulary = {piece: id for id, piece in enumerate(pieces)}
    rust = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    normalizer, lower = normalizers.BertNormalizer(**options), normalizers.Lowercase()
    steps: dict[str, list[Any]] = {
        "first": [lower, normalizer],
        "last": [normalizer, lower],
        "no": [normalizer],
    }
    rust.normalizer = normalizers.Sequence(steps[lowercase])
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.add_tokens([AddedToken(token, normalized=False) for token in added])
    return rust


@given(
    options=st.fixed_dictionaries(
        {
            **dict.fromkeys(("clean_text", "handle_chinese_chars", "lowercase"), st.booleans()),
            "strip_accents": st.sampled_from([None, True, False]),
        }
    ),
    lowercase=st.sampled_from(["first", "last", "no"]),
    added=st.lists(st.sampled_from(ADDED), max_size=4),
    text=st.lists(st.sampled_from(CHARACTERS), max_size=8).map("".join),
)
@example(options={"handle_chinese_chars": False}, lowercase="no", added=["\n"], text="a仦")
def test_cached_ids_equal_those_of_a_tokenizer_with_any_options(
    options: dict[str, bool | None], lowercase: str, added: list[str], text: str
) -> None:
    rust = _bert(options, lowercase, added)
    fastest, expected = fastest_tokenizer(rust, [], []), UncachedTokenizer(rust).encode([text] * 5)
    assert fastest.encode([text] * 5) == expected


def test_a_sample_with_added_tokens_is_compared_word_by_word(modified: Tokenizer) -> None:
    modified.add_tokens([AddedToken("\n", normalized=False)])
    assert isinstance(fastest_tokenizer(modified, [CLS], []), UncachedTokenizer)
    assert isinstance(fastest_tokenizer(modified, [CLS], [SEP]), CachingTokenizer)


def test_wrong_special_tokens_are_not_cached(rust: Tokenizer) -> None:
    assert isinstance(fastest_tokenizer(rust, [CLS], []), UncachedTokenizer)


def test_a_word_is_tokenized_once(rust: Tokenizer) -> None:
    caching = CachingTokenizer(rust, [CLS], [SEP])
    caching.encode(["the work"])
    caching.cache["work"] = [7]
    assert caching.encode(["work, the work"]) == [[CLS, 7, 1010, 1996, 7, SEP]]


def test_the_cache_has_at_most_max_words(rust: Tokenizer) -> None:
    caching = CachingTokenizer(rust, [CLS], [SEP], max_words=3)
    texts = ["one two", "three four", "five six one"]
    assert caching.encode(texts) == UncachedTokenizer(rust).encode(texts)
    assert list(caching.cache) == ["five", "six", "one"]


def test_a_text_with_many_new_words_is_tokenized_directly_and_some_are_cached(
    rust: Tokenizer,
) -> None:
    caching = CachingTokenizer(rust, [CLS], [SEP])
    new = [f"{letter}ense" for letter in "abcdefghijklmnopqrst"]
    texts = ["the work", " ".join(new), "of the license"]
    for cached in (8, 16, 20):
        assert caching.encode(texts) == UncachedTokenizer(rust).encode(texts)
        assert len(caching.cache.keys() & set(new)) == cached


def test_long_words_and_texts_are_not_cached(rust: Tokenizer) -> None:
    caching = CachingTokenizer(rust, [CLS], [SEP])
    caching.cache["the"] = [7]
    assert caching.encode(["the"]) == [[CLS, 7, SEP]]
    assert caching.encode(["the " * 5001]) == [[CLS, *[1996] * 5001, SEP]]
    caching.encode(["x" * 25, "y" * 24])
    assert list(caching.cache) == ["the", "y" * 24]
