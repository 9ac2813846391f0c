"""Tests of the caching tokenizer, compared with the tokenizer without a cache."""

import io
import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from embedwell_models.tokenizer.caching_tokenizer import (
    CachingTokenizer,
    UncachedTokenizer,
    fastest_tokenizer,
    pieces_of,
)
from embedwell_models.tokenizer.loading import loader
from embedwell_models.tokenizer.special_tokens import SpecialTokens
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


def _caching(
    rust: Tokenizer, prefix: Sequence[int], suffix: Sequence[int], max_pieces: int = 1000
) -> CachingTokenizer:
    pieces = pieces_of(rust)
    assert pieces is not None
    return CachingTokenizer(rust, prefix, suffix, pieces, max_pieces)


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
    caching, expected = _caching(rust, [CLS], [SEP]), UncachedTokenizer(rust).encode(texts)
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
    assert [*map(list, caching.encode(["", "the work"]))] == [[], [1996, 2147]]


LOCAL = {"wordpiece", "gpt2", "roberta", "qwen", "llama3", "unigram"}


@pytest.mark.parametrize("kind", sorted(kinds.BUILDERS))
def test_tokenizers_that_end_a_token_at_a_space_are_cached(kind: str) -> None:
    rust = Tokenizer.from_str(kinds.text(kind))
    assert (pieces_of(rust) is not None) == (kind in LOCAL)


def _with_signs_alone(rust: Tokenizer) -> None:
    collapse = normalizers.Replace(Regex(" {2,}"), " ")
    rust.normalizer = normalizers.Sequence([normalizers.NFKC(), collapse])
    rust.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")


def _with_map_of_characters(rust: Tokenizer) -> None:
    model = io.BytesIO()
    train: Any = sentencepiece.SentencePieceTrainer.train
    train(
        sentence_iterator=iter(kinds.PROSE.splitlines()),
        model_writer=model,
        vocab_size=300,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    content: Any = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    content.ParseFromString(model.getvalue())
    rust.normalizer = normalizers.Precompiled(content.normalizer_spec.precompiled_charsmap)


def _with_tokens_of_spaces(rust: Tokenizer) -> None:
    rust.normalizer = normalizers.NFKC()
    rust.add_tokens(["  ", "   ", "the", "|||IP|||"])
    rust.add_special_tokens([AddedToken("[MASK]", lstrip=True)])


CHANGED: dict[str, Callable[[Tokenizer], None]] = {
    "unigram with a map of characters": _with_map_of_characters,
    "unigram with signs alone": _with_signs_alone,
    "gpt2 with tokens of spaces": _with_tokens_of_spaces,
}


@pytest.fixture(scope="module", params=["gpt2", "roberta", "qwen", "unigram", *CHANGED])
def local(request: pytest.FixtureRequest) -> Tokenizer:
    rust = Tokenizer.from_str(kinds.text(request.param.split()[0]))
    if change := CHANGED.get(request.param):
        change(rust)
    return rust


BORDERS = st.sampled_from(
    [
        *(" a", "a ", "'s", " 's", "1", " 12", "▁", " ▁a", "a▁ ", "  ", "   ", "\n ", " \n", "…"),
        *("´", "¨", "\u0d4e", "\u0600", "ำ", "ﾞ", "\u1100", "\u1161", "🏽", "🇩", "ﷺ", "the"),
    ]
)


@given(text=st.lists(st.one_of(PARTS, BORDERS, st.just(" ")), max_size=30).map("".join))
@example(text="a  b   c    d\n e \nf \t g ")
@pytest.mark.full(after=1)
def test_cached_ids_equal_those_of_every_kind_of_tokenizer(local: Tokenizer, text: str) -> None:
    pieces, uncached = pieces_of(local), UncachedTokenizer(local)
    assert pieces is not None
    [prefix, suffix] = SpecialTokens.detect(local).prefix, SpecialTokens.detect(local).suffix
    caching = CachingTokenizer(local, prefix, suffix, pieces)
    assert caching.encode([text, text]) == uncached.encode([text, text])
    assert caching.encode([text]) == uncached.encode([text])  # from the cache


@pytest.mark.parametrize("kind", sorted(LOCAL))
def test_cached_ids_of_prose_equal_those_of_every_kind_of_tokenizer(kind: str) -> None:
    rust = Tokenizer.from_str(kinds.text(kind))
    special = SpecialTokens.detect(rust)
    caching = _caching(rust, special.prefix, special.suffix)
    texts = [" ".join(line.split()) for line in kinds.PROSE.splitlines()]
    for _ in range(2):
        assert caching.encode(texts) == UncachedTokenizer(rust).encode(texts)
    assert len(caching.cache) > 500


@pytest.mark.parametrize(
    "piece",
    [
        *("a\x0b", "\u200da", "\u0600a", "\u0301", "\u3000", "▁a", "a▁", "aﾞ", "ำ", "\u0d4ea"),
        *("🏽", "\U0001d165a", "x" * 257),
        *("the", "ｔｈｅ", "|||IP|||", "｜｜｜IP｜｜｜"),  # added, and what is normalized to such
    ],
)
def test_a_piece_that_may_join_a_space_or_an_added_token_is_not_cached(piece: str) -> None:
    rust = Tokenizer.from_str(kinds.text("gpt2"))
    _with_tokens_of_spaces(rust)
    pieces = pieces_of(rust)
    assert pieces is not None and not pieces.is_local(piece) and not pieces.is_local(f" {piece}")
    assert pieces.is_local("work") and pieces.is_local("😀") and pieces.is_local("x" * 256)


def test_bytes_are_cached_by_the_pattern_of_a_word_alone() -> None:
    rust = Tokenizer.from_str(kinds.text("qwen"))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for behavior, invert, cached in (
        ("isolated", False, True),
        ("isolated", True, False),
        ("removed", False, False),
    ):
        split = pre_tokenizers.Split(Regex(kinds.QWEN), behavior, invert)
        rust.pre_tokenizer = pre_tokenizers.Sequence([split, level])
        assert (pieces_of(rust) is not None) is cached
    rust.add_tokens(["two words"])
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert pieces_of(rust) is None


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
    rust.add_tokens([AddedToken("ense", normalized=True)])


def _add_token_of_two_words(rust: Tokenizer) -> None:
    rust.add_tokens([AddedToken("two words", normalized=False)])


@pytest.mark.parametrize(
    "change",
    [
        _compose,
        _keep_chinese_words,
        _split_digits,
        _do_not_split,
        _do_not_normalize,
        _add_normalized_token,
        _add_token_of_two_words,
    ],
)
def test_tokenizers_with_steps_that_may_look_across_words_are_not_cached(
    modified: Tokenizer, change: Callable[[Tokenizer], None]
) -> None:
    change(modified)
    assert pieces_of(modified) is None
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
    caching = _caching(rust, [CLS], [SEP])
    caching.encode(["the work"])
    caching.cache["work"] = array("i", [7]).tobytes()
    assert [*caching.encode(["work, the work"])[0]] == [CLS, 7, 1010, 1996, 7, SEP]


def test_the_cache_has_at_most_max_words(rust: Tokenizer) -> None:
    caching = _caching(rust, [CLS], [SEP], max_pieces=3)
    texts = ["one two", "three four", "five six one"]
    assert caching.encode(texts) == UncachedTokenizer(rust).encode(texts)
    assert list(caching.cache) == ["five", "four", "one"]
    assert caching.encode(texts[2:]) == UncachedTokenizer(rust).encode(texts[2:])
    assert list(caching.cache) == ["five", "one", "six"]
    rest = _caching(rust, [CLS], [SEP], max_pieces=3)
    rest.encode(["one"])
    assert rest.encode(texts) == UncachedTokenizer(rust).encode(texts)
    assert len(rest.cache) == 3, "it had room for two"


def test_long_words_and_texts_are_not_cached(rust: Tokenizer) -> None:
    caching = _caching(rust, [CLS], [SEP])
    caching.cache["the"] = array("i", [7]).tobytes()
    assert [*caching.encode(["the"])[0]] == [CLS, 7, SEP]
    (ids,) = caching.encode([" ".join(["the"] * 5001)])
    assert [*ids] == [CLS, *[1996] * 5001, SEP]
    caching.encode(["x" * 25, "y" * 24])
    assert list(caching.cache) == ["the", "y" * 24]


def test_another_sign_for_spaces_than_sentencepiece_has_is_not_cached() -> None:
    rust = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0))
    for sign, cached in (("▁", True), ("_", False)):
        rust.pre_tokenizer = pre_tokenizers.Metaspace(replacement=sign, prepend_scheme="always")
        assert (pieces_of(rust) is not None) is cached
