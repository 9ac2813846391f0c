"""A long text that is split before it is tokenized has the tokens of the full text."""

from collections.abc import Callable
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from embedwell_classic.convert.tokenizer import convert
from embedwell_models.errors import UnsplittableTextError
from embedwell_models.tokenizer import tokenizer as tokenizing
from embedwell_models.tokenizer.loading import loader
from embedwell_models.tokenizer.split_points import SplitPoints
from embedwell_models.tokenizer.steps import run_to_completion
from tests.models import kinds, raw

WORDS = [
    "the",
    "work of",
    " license a",
    "license",
    "Work",
    "a",
    "I",
    "x" * 40,
    "don't",
    "naïve",
    "e\u0301",
    "i\u0307",
    "слово и",
    "ΟΔΟΣ",
    "İ",
    "नमस्ते",
    "كلمة",
    "สวัสดี",
    "\u0d4e",
    "x²",
    "Ⅷ",
    "\u037a",
    "\ufe70",
]
PUNCTUATION = [
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    ", ",
    ". ",
    "' ",
    '"',
    "``",
    "—",
    "1,000",
    "12",
    "1 2",
    "▁",
    " ▁ ",
]
OTHERS = [
    "京",
    "東，",
    "字。",
    "か",
    "カ、",
    "が",
    "か\u3099",
    "ー",
    "，",
    "한글",
    "😀",
    "👩\u200d👧",
    "\u200b",
]
SPECIAL = [
    "<s>",
    "</s>",
    "[CLS]",
    "[MASK]",
    "<mask>",
    "<unk>",
    "<x>",
    "<|endoftext|>",
    "<extra_id_1>",
]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([" ", "，"]), *map(st.sampled_from, (WORDS, PUNCTUATION, OTHERS, SPECIAL))
    ),
    max_size=80,
).map("".join)
SIDES: list[Any] = ["right", "left"]


# With the normalizers and pre-tokenizers that the kinds lack.
CONVERTED = ["xlm_roberta", "albert", "mt5", "deberta", "deberta_split", "llama_legacy"]


@pytest.fixture(scope="module", params=[*kinds.BUILDERS, *CONVERTED])
def rust(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    if name in kinds.BUILDERS:
        return loader.load(kinds.write(name, folder)).rust
    target = folder / "converted"
    target.mkdir()
    convert(raw.write(name, folder), target)
    return loader.load(target).rust


@pytest.fixture(scope="module")
def folder(rust: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folder")
    (folder / "tokenizer.json").write_text(rust.to_str(), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> tokenizing.Tokenizer:
    return tokenizing.Tokenizer(folder, 6)


@pytest.fixture(scope="module")
def chunked(folder: Path) -> tokenizing.Tokenizer:
    return tokenizing.Tokenizer(folder, 6, chunk_size=9)


@pytest.fixture(scope="module")
def split_points(rust: Tokenizer) -> SplitPoints:
    return SplitPoints(rust)


@settings(max_examples=60)
@given(text=TEXTS, size=st.integers(1, 40))
@pytest.mark.full(after=4)
def test_tokens_of_an_excerpt_are_the_first_or_last_of_the_text(
    rust: Tokenizer, split_points: SplitPoints, text: str, size: int
) -> None:
    full = rust.encode(text, add_special_tokens=False).ids
    head = rust.encode(split_points.excerpt(text, "right", size), add_special_tokens=False).ids
    assert full[: len(head)] == head
    tail = rust.encode(split_points.excerpt(text, "left", size), add_special_tokens=False).ids
    inner = tail[1:]  # the outermost may be a part of another
    assert full[len(full) - len(inner) :] == inner


@pytest.mark.full(after=4)
@settings(max_examples=60)
@given(text=TEXTS, size=st.integers(1, 40))
def test_concatenated_tokens_of_the_chunks_are_those_of_the_text(
    rust: Tokenizer, split_points: SplitPoints, text: str, size: int
) -> None:
    spans = list(split_points.chunk_spans(text, size))
    assert "".join(text[start:stop] for start, stop in spans) == text
    chunks = [rust.encode(text[start:stop], add_special_tokens=False) for start, stop in spans]
    full = rust.encode(text, add_special_tokens=False)
    assert [id for chunk in chunks for id in chunk.ids] == full.ids


def test_too_many_characters_without_a_split_point_are_refused(rust: Tokenizer) -> None:
    split_points, words = SplitPoints(rust, 1000), "a word " * 100
    with pytest.raises(UnsplittableTextError, match="more than 1000 characters in a row"):
        list(split_points.chunk_spans(words + "-" * 1100 + words, 100))
    assert "".join(words[slice(*span)] for span in split_points.chunk_spans(words, 400)) == words


@pytest.mark.full(after=6)
@pytest.mark.parametrize("side", SIDES)
@settings(max_examples=30)
@given(text=TEXTS, times=st.integers(1, 4))
def test_an_excerpt_gives_the_ids_of_the_full_text(
    tokenizer: tokenizing.Tokenizer, side: Any, text: str, times: int
) -> None:
    (row,), (full,) = (tokenizer.encode([text * times], side, count) for count in (0, inf))
    assert row.ids == full.ids
    assert bool(row.dropped) == bool(full.dropped) and row.dropped <= full.dropped
    described, tokens = run_to_completion(tokenizer.encode_with_tokens(text * times, "", side))
    full_row, full_tokens = run_to_completion(
        tokenizer.encode_with_tokens(text * times, "", side, count_limit=inf)
    )
    assert tokens == full_tokens and described == row and full_row == full


@settings(max_examples=40)
@given(text=TEXTS, times=st.integers(1, 4), prompt=st.sampled_from(["", "query: ", "work of"]))
@pytest.mark.full(after=4)
def test_tokenizing_in_chunks_equals_tokenizing_at_once(
    tokenizer: tokenizing.Tokenizer,
    chunked: tokenizing.Tokenizer,
    text: str,
    times: int,
    prompt: str,
) -> None:
    text *= times
    for special in (True, False):
        tokens = tokenizer.tokens(text, prompt, special)
        assert chunked.tokens(text, prompt, special) == tokens
        ids_outside = [(token.id, token.start is None) for token in tokens]
        assert list(chain.from_iterable(chunked.id_chunks(text, prompt, special))) == ids_outside
    assert list(run_to_completion(chunked.ids_without_special(text))) == [
        t.id for t in tokenizer.tokens(text, "", False)
    ]
    ids = tokenizer.encode([text], count_limit=inf)[0]
    assert run_to_completion(chunked.count_tokens(text)) == len(ids.ids) + ids.dropped
    for side in SIDES:
        assert chunked.encode([text], side, inf) == tokenizer.encode([text], side, inf)
        for count in (0, inf):
            (row, tokens), (other, others) = (
                run_to_completion(variant.encode_with_tokens(text, prompt, side, count))
                for variant in (chunked, tokenizer)
            )
            assert (row.ids, tokens) == (other.ids, others)
            assert row.dropped == other.dropped or not count
            assert bool(row.dropped) == bool(other.dropped)


# (Kind, side) whose tokens depend on the text before them.
UNSPLIT = {("llama", "left"), ("whole_unigram", "left")}
LETTERS = "word " * 5000
CHINESE = "今天天气很好，我们去公园散步吧。" * 1000
SPLIT = ["wordpiece", "wordlevel", "gpt2", "roberta", "qwen", "llama3", "clip"]


@pytest.mark.parametrize("side", SIDES)
def test_an_excerpt_of_words_is_at_most_twice_the_size(
    request: pytest.FixtureRequest, rust: Tokenizer, split_points: SplitPoints, side: Any
) -> None:
    name = request.node.callspec.params["rust"]
    part = split_points.excerpt(LETTERS, side, 1000)
    assert (part == LETTERS) == ((name, side) in UNSPLIT)
    assert part == LETTERS or 1000 <= len(part) <= 2000


@pytest.mark.parametrize("rust", SPLIT, indirect=True, scope="module")
def test_an_excerpt_of_sentences_without_spaces_is_at_most_twice_the_size(
    split_points: SplitPoints,
) -> None:
    assert 1000 <= len(split_points.excerpt(CHINESE, "right", 1000)) <= 2000


@pytest.mark.parametrize("rust", ["wordpiece"], indirect=True, scope="module")
@pytest.mark.parametrize("side", SIDES)
def test_the_full_text_is_tokenized_if_an_excerpt_has_too_few_tokens(
    tokenizer: tokenizing.Tokenizer, side: Any
) -> None:
    text = ("x" * 150 + " ") * 9  # words so long that each is one unknown token
    (row,) = tokenizer.encode([text], side)
    assert row == tokenizer.encode([text], side, count_limit=inf)[0]
    assert (len(row.ids), row.dropped) == (6, 5)
    assert [
        token.id for token in run_to_completion(tokenizer.encode_with_tokens(text, "", side))[1]
    ] == row.ids


def test_a_text_without_split_points_is_not_cut(split_points: SplitPoints) -> None:
    for text in ("x" * 9000, "- " * 4500, "   " * 3000, "字" * 9000):
        assert split_points.excerpt(text, "right", 1000) is text
        assert split_points.excerpt(text, "left", 1000) is text


def joined() -> Tokenizer:
    rust = Tokenizer(models.BPE())
    rust.normalizer = normalizers.Replace(" ", "▁")
    trainer = trainers.BpeTrainer(vocab_size=900, show_progress=False)
    rust.train_from_iterator(kinds.PROSE.splitlines(), trainer)
    return rust


def added(token: AddedToken) -> Callable[[], Tokenizer]:
    def build() -> Tokenizer:
        rust = kinds.gpt2()
        rust.add_tokens([token])
        return rust

    return build


def changed(**parts: Any) -> Callable[[], Tokenizer]:
    def build() -> Tokenizer:
        rust = kinds.gpt2()
        for name, part in parts.items():
            setattr(rust, name, part)
        return rust

    return build


LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
pairs = pre_tokenizers.Split(Regex(r"\S+ \S+| "), "isolated")
CROSSING = {
    "merged across words": joined,
    "an added token of two words": added(AddedToken("of the")),
    "an added token that ends with a space": added(AddedToken("of ")),
    "an unknown pattern": changed(pre_tokenizer=pre_tokenizers.Sequence([pairs, LEVEL])),
    "no split of bytes": changed(pre_tokenizer=LEVEL),
    "words of a fixed length": changed(
        pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.FixedLength(7), LEVEL])
    ),
    "a space with the word before it": changed(
        pre_tokenizer=pre_tokenizers.Sequence(
            [pre_tokenizers.Split(" ", "merged_with_previous"), LEVEL]
        )
    ),
    "words without a space between": changed(normalizer=normalizers.Replace(" ", "")),
    "an unknown replacement": changed(normalizer=normalizers.Replace("e w", "E W")),
}


@pytest.mark.parametrize("case", CROSSING)
def test_a_tokenizer_that_looks_across_words_gets_no_excerpts(case: str) -> None:
    split_points = SplitPoints(CROSSING[case]())
    assert split_points.excerpt(LETTERS, "right", 1000) is LETTERS
    assert split_points.excerpt(LETTERS, "left", 1000) is LETTERS


@pytest.mark.parametrize("option", ["rstrip", "single_word"])
def test_an_added_token_that_looks_to_its_left_prevents_excerpts_of_the_end_only(
    option: Any,
) -> None:
    split_points = SplitPoints(added(AddedToken(" word", **{option: True}))())
    assert split_points.excerpt(LETTERS, "left", 1000) is LETTERS
    assert len(split_points.excerpt(LETTERS, "right", 1000)) < 2000


@pytest.mark.parametrize("side", SIDES)
def test_of_ten_megabytes_only_an_excerpt_is_tokenized(minilm_folder: Path, side: Any) -> None:
    tokenizer = tokenizing.Tokenizer(minilm_folder, 256)
    text = kinds.PROSE * (10_000_000 // len(kinds.PROSE))
    (row,) = tokenizer.encode([text], side)
    assert len(row.ids) == 256
    assert 0 < row.dropped < 10_000
