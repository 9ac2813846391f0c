"""A long text that is cut before it is tokenised has the tokens of one that is cut after."""

from collections.abc import Callable
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from models.convert.tokenizer import convert
from models.errors import UnsplittableTextError
from models.tokenizer import tokenizer as tokenizing
from models.tokenizer.cooperative import run_to_completion
from models.tokenizer.loading import loader
from models.tokenizer.split_points import SplitPoints
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
SIGNS = [
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
MARKS = [
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
    st.one_of(st.sampled_from([" ", "，"]), *map(st.sampled_from, (WORDS, SIGNS, OTHERS, MARKS))),
    max_size=80,
).map("".join)
SIDES: list[Any] = ["right", "left"]


# With the normalisers and pre-tokenisers that the kinds lack.
MORE = ["xlm_roberta", "albert", "mt5", "deberta", "deberta_split", "llama_legacy"]


@pytest.fixture(scope="module", params=[*kinds.BUILDERS, *MORE])
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
def piecewise(folder: Path) -> tokenizing.Tokenizer:
    return tokenizing.Tokenizer(folder, 6, chunk_size=9)


@pytest.fixture(scope="module")
def excerpts(rust: Tokenizer) -> SplitPoints:
    return SplitPoints(rust)


@settings(max_examples=60)
@given(text=TEXTS, size=st.integers(1, 40))
@pytest.mark.full(after=4)
def test_tokens_of_an_excerpt_are_the_first_or_last_of_the_text(
    rust: Tokenizer, excerpts: SplitPoints, text: str, size: int
) -> None:
    whole = rust.encode(text, add_special_tokens=False).ids
    head = rust.encode(excerpts.excerpt(text, "right", size), add_special_tokens=False).ids
    assert whole[: len(head)] == head
    tail = rust.encode(excerpts.excerpt(text, "left", size), add_special_tokens=False).ids
    inner = tail[1:]  # the outermost may be a part of another
    assert whole[len(whole) - len(inner) :] == inner


@settings(max_examples=60)
@given(text=TEXTS, size=st.integers(1, 40))
def test_tokens_of_pieces_are_those_of_the_text(
    rust: Tokenizer, excerpts: SplitPoints, text: str, size: int
) -> None:
    places = list(excerpts.chunk_spans(text, size))
    assert "".join(text[start:stop] for start, stop in places) == text
    found = [rust.encode(text[start:stop], add_special_tokens=False) for start, stop in places]
    whole = rust.encode(text, add_special_tokens=False)
    assert [id for piece in found for id in piece.ids] == whole.ids


def test_a_text_that_cannot_be_cut_for_too_long_is_refused(rust: Tokenizer) -> None:
    excerpts, words = SplitPoints(rust, 1000), "a word " * 100
    with pytest.raises(UnsplittableTextError, match="more than 1000 characters in a row"):
        list(excerpts.chunk_spans(words + "-" * 1100 + words, 100))
    assert "".join(words[slice(*place)] for place in excerpts.chunk_spans(words, 400)) == words


@pytest.mark.parametrize("side", SIDES)
@settings(max_examples=30)
@given(text=TEXTS, times=st.integers(1, 4))
def test_ids_are_those_of_the_whole_text(
    tokenizer: tokenizing.Tokenizer, side: Any, text: str, times: int
) -> None:
    (row,), (whole,) = (tokenizer.encode([text * times], side, count) for count in (0, inf))
    assert row.ids == whole.ids
    assert bool(row.dropped) == bool(whole.dropped) and row.dropped <= whole.dropped
    described, found = tokenizer.encode_with_tokens(text * times, "", side)
    told, all_found = tokenizer.encode_with_tokens(text * times, "", side, count_limit=inf)
    assert found == all_found and described == row and told == whole


@settings(max_examples=40)
@given(text=TEXTS, times=st.integers(1, 4), prompt=st.sampled_from(["", "query: ", "work of"]))
@pytest.mark.full(after=4)
def test_what_is_read_piece_by_piece_is_what_is_read_at_once(
    tokenizer: tokenizing.Tokenizer,
    piecewise: tokenizing.Tokenizer,
    text: str,
    times: int,
    prompt: str,
) -> None:
    text *= times
    for special in (True, False):
        tokens = tokenizer.tokens(text, prompt, special)
        assert piecewise.tokens(text, prompt, special) == tokens
        outline = [(token.id, token.start is None) for token in tokens]
        assert list(chain.from_iterable(piecewise.id_chunks(text, prompt, special))) == outline
    assert list(run_to_completion(piecewise.ids_without_special(text))) == [
        t.id for t in tokenizer.tokens(text, "", False)
    ]
    ids = tokenizer.encode([text], count_limit=inf)[0]
    assert run_to_completion(piecewise.count_tokens(text)) == len(ids.ids) + ids.dropped
    for side in SIDES:
        assert piecewise.encode([text], side, inf) == tokenizer.encode([text], side, inf)
        for count in (0, inf):
            (row, tokens), (other, others) = (
                each.encode_with_tokens(text, prompt, side, count)
                for each in (piecewise, tokenizer)
            )
            assert (row.ids, tokens) == (other.ids, others)
            assert row.dropped == other.dropped or not count
            assert bool(row.dropped) == bool(other.dropped)


# Those whose tokens depend on what stands before.
WHOLE = {("llama", "left"), ("whole_unigram", "left")}
LETTERS = "word " * 5000
CHINESE = "今天天气很好，我们去公园散步吧。" * 1000
SPLIT = ["wordpiece", "wordlevel", "gpt2", "roberta", "qwen", "llama3", "clip"]


@pytest.mark.parametrize("side", SIDES)
def test_hardly_more_of_words_is_read_than_is_needed(
    request: pytest.FixtureRequest, rust: Tokenizer, excerpts: SplitPoints, side: Any
) -> None:
    name = request.node.callspec.params["rust"]
    part = excerpts.excerpt(LETTERS, side, 1000)
    assert (part == LETTERS) == ((name, side) in WHOLE)
    assert part == LETTERS or 1000 <= len(part) <= 2000


@pytest.mark.parametrize("rust", SPLIT, indirect=True, scope="module")
def test_nor_of_sentences_without_a_space(excerpts: SplitPoints) -> None:
    assert 1000 <= len(excerpts.excerpt(CHINESE, "right", 1000)) <= 2000


@pytest.mark.parametrize("rust", ["wordpiece"], indirect=True, scope="module")
@pytest.mark.parametrize("side", SIDES)
def test_an_excerpt_with_too_few_tokens_does_not_do(
    tokenizer: tokenizing.Tokenizer, side: Any
) -> None:
    text = ("x" * 150 + " ") * 9  # words so long that each is one unknown token
    (row,) = tokenizer.encode([text], side)
    assert row == tokenizer.encode([text], side, count_limit=inf)[0]
    assert (len(row.ids), row.dropped) == (6, 5)
    assert [token.id for token in tokenizer.encode_with_tokens(text, "", side)[1]] == row.ids


def test_a_text_without_a_border_is_read_whole(excerpts: SplitPoints) -> None:
    for text in ("x" * 9000, "- " * 4500, "   " * 3000, "字" * 9000):
        assert excerpts.excerpt(text, "right", 1000) is text
        assert excerpts.excerpt(text, "left", 1000) is text


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
TRAPS = {
    "merged across words": joined,
    "an added token of two words": added(AddedToken("of the")),
    "an added token that ends with a space": added(AddedToken("of ")),
    "an unknown pattern": changed(pre_tokenizer=pre_tokenizers.Sequence([pairs, LEVEL])),
    "no split of bytes": changed(pre_tokenizer=LEVEL),
    "pieces of a fixed length": changed(
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


@pytest.mark.parametrize("trap", TRAPS)
def test_a_tokenizer_that_looks_across_words_reads_all(trap: str) -> None:
    excerpts = SplitPoints(TRAPS[trap]())
    assert excerpts.excerpt(LETTERS, "right", 1000) is LETTERS
    assert excerpts.excerpt(LETTERS, "left", 1000) is LETTERS


@pytest.mark.parametrize("looks", ["rstrip", "single_word"])
def test_a_token_that_looks_to_its_left_is_minded_at_that_side_only(looks: Any) -> None:
    excerpts = SplitPoints(added(AddedToken(" word", **{looks: True}))())
    assert excerpts.excerpt(LETTERS, "left", 1000) is LETTERS
    assert len(excerpts.excerpt(LETTERS, "right", 1000)) < 2000


@pytest.mark.parametrize("side", SIDES)
def test_ten_megabytes_are_not_read(minilm_folder: Path, side: Any) -> None:
    tokenizer = tokenizing.Tokenizer(minilm_folder, 256)
    text = kinds.PROSE * (10_000_000 // len(kinds.PROSE))
    (row,) = tokenizer.encode([text], side)
    assert len(row.ids) == 256
    assert 0 < row.dropped < 10_000
