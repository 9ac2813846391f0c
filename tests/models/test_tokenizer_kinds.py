"""The tokenizer on every kind of tokenizer.json, compared with transformers."""

import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Rust
from tokenizers import models
from transformers import PreTrainedTokenizerFast

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models import kinds

LONG = 4096
# What people write: letters of several scripts, marks, signs, emoji, and every white space.
WRITTEN = st.text(
    st.one_of(
        st.sampled_from("the license of this work, and'll 12 \n\t  "),
        st.sampled_from(
            "éÅñßİﬁ½①東京語。，한글ქარΟδός\u0301\u0308\u00a0\u3000😀🦊👩\u200d👧☔\ufe0f"
        ),
        st.characters(codec="utf-8", exclude_characters="▁"),  # which stands for a space
    ),
    max_size=60,
)
EXACT = ["gpt2", "llama3", "llama", "metallama", "gemma"]
BYTES = [*EXACT, "roberta", "qwen", "clip"]


@pytest.fixture(scope="module", params=kinds.BUILDERS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kinds.write(kind, tmp_path_factory.mktemp(kind))


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder, LONG)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    load: Any = PreTrainedTokenizerFast
    return load(tokenizer_file=str(folder / "tokenizer.json"))


def test_ids_equal_those_of_transformers(
    tokenizer: Tokenizer, theirs: Any, texts: list[str]
) -> None:
    expected = theirs(texts)["input_ids"]
    assert [row.ids for row in tokenizer.encode(texts)] == expected


@settings(max_examples=40)
@given(text=WRITTEN)
def test_ids_of_anything_equal_those_of_transformers(
    tokenizer: Tokenizer, theirs: Any, text: str
) -> None:
    assert tokenizer.encode([text])[0].ids == theirs(text)["input_ids"]


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_cut_equals_that_of_transformers(
    folder: Path, theirs: Any, texts: list[str], side: Any
) -> None:
    theirs.truncation_side = side
    expected = theirs(texts, truncation=True, max_length=7)["input_ids"]
    assert [row.ids for row in Tokenizer(folder, 7).encode(texts, side)] == expected


SPECIAL = {
    "wordpiece": (["[CLS]"], ["[SEP]"]),
    "roberta": (["<s>"], ["</s>"]),
    "qwen": ([], ["<|endoftext|>"]),
    "llama3": (["<|begin_of_text|>"], []),
    "clip": (["<|startoftext|>"], ["<|endoftext|>"]),
    "llama": (["<s>"], []),
    "metallama": (["<s>"], []),
    "gemma": (["<s>"], ["</s>"]),
    "unigram": (["<s>"], ["</s>"]),
    "whole_unigram": ([], ["</s>"]),
}


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_cut_keeps_the_special_tokens_of_the_template(kind: str, folder: Path, side: Any) -> None:
    short = Tokenizer(folder, 9)
    _, found = run_to_completion(
        short.encode_with_tokens("of the work that this license is for " * 3, "", side)
    )
    before, after = SPECIAL.get(kind, ([], []))
    names = [token.text for token in found]
    assert len(found) == 9
    assert names[: len(before)] == before and names[9 - len(after) :] == after
    special = [token.special for token in found]
    inside = 9 - len(before) - len(after)
    assert special == [*[True] * len(before), *[False] * inside, *[True] * len(after)]


@settings(max_examples=40)
@given(text=WRITTEN)
def test_places_are_in_order_inside_the_text(tokenizer: Tokenizer, text: str) -> None:
    found = tokenizer.tokens(text)
    places = [(token.start, token.stop) for token in found if token.start is not None]
    assert all(start <= stop <= len(text) for start, stop in places if stop is not None)
    assert places == sorted(places)
    for token in found:
        if token.start is not None:
            assert token.text == text[token.start : token.stop]


# What people see as one character, of which no normaliser drops one.
SEEN = "the license, of 12 cafés (Ångström) ﬁ½① 東京語。， 한글 ქარ οδός😀🦊☔"
VISIBLE = st.lists(st.sampled_from([*SEEN, "e\u0301", "n\u0303", "🌧\ufe0f"]), max_size=40)


@settings(max_examples=40)
@given(parts=VISIBLE)
def test_places_cover_all_that_is_seen(tokenizer: Tokenizer, parts: list[str]) -> None:
    text = "".join(parts)
    shown: set[int] = set()
    for token in tokenizer.tokens(text):
        shown.update(range(token.start or 0, token.stop or 0))
    assert not {i for i, char in enumerate(text) if not char.isspace()} - shown


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        ("gpt2", [(0, 1), (1, 2), (1, 2)]),  # the mark has tokens of its own
        ("qwen", [(0, 2), (0, 2)]),  # one letter of two bytes
        ("unigram", [(0, 2), (0, 2)]),  # "▁" and one letter
    ],
    indirect=["kind"],
    scope="module",
)
def test_a_mark_is_of_the_token_of_its_letter_unless_it_has_one(
    tokenizer: Tokenizer, places: list[tuple[int, int]]
) -> None:
    found = [token for token in tokenizer.tokens("e\u0301") if not token.special]
    assert [(token.start, token.stop) for token in found] == places


def test_the_tokens_of_one_emoji_all_have_its_place(kind: str, tokenizer: Tokenizer) -> None:
    found = [token for token in tokenizer.tokens("work 🦊 work") if token.text.strip() == "🦊"]
    assert {(token.start, token.stop) for token in found} == {(5, 6)}
    assert len(found) == {"unigram": 2, **dict.fromkeys(BYTES, 4)}.get(kind, 1)  # "▁" and "🦊"


@settings(max_examples=40)
@given(text=WRITTEN)
def test_decoding_equals_that_of_transformers(
    kind: str, tokenizer: Tokenizer, theirs: Any, text: str
) -> None:
    ids = tokenizer.encode([text])[0].ids
    expected = theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    if kind == "clip":  # transformers does this in the class of its own
        expected = expected.replace("</w>", " ").removesuffix(" ")
    assert tokenizer.decode([ids]) == [expected]


NORMALIZED: Mapping[str, Callable[[str], str]] = {
    **dict.fromkeys(EXACT, lambda text: text),
    "qwen": lambda text: unicodedata.normalize("NFC", text),
    "roberta": lambda text: text if text[:1] in ("", " ") else " " + text,
}


@pytest.mark.parametrize("kind", NORMALIZED, indirect=True, scope="module")
@settings(max_examples=40)
@given(text=WRITTEN)
def test_what_is_made_of_bytes_comes_back_whole(kind: str, tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode([text])[0].ids
    assert tokenizer.decode([ids]) == [NORMALIZED[kind](text)]


def test_words_that_the_vocabulary_has_come_back(tokenizer: Tokenizer) -> None:
    words = "the work of this license"
    assert tokenizer.decode([tokenizer.encode([words])[0].ids])[0].strip() == words


@pytest.mark.parametrize("name", ["wordpiece", "wordlevel"])
def test_a_tokenizer_that_has_no_unknown_token_is_refused(name: str, tmp_path: Path) -> None:
    raw = kinds.text(name).replace('"unk_token":"[UNK]"', '"unk_token":"[NONE]"')
    (tmp_path / "tokenizer.json").write_text(raw, encoding="utf-8")
    with pytest.raises(ModelError, match="cannot read every text"):
        Tokenizer(tmp_path, 64)


def test_chance_is_left_out_of_merging(tmp_path: Path) -> None:
    raw = kinds.text("gpt2").replace('"dropout":null', '"dropout":0.5')
    (tmp_path / "tokenizer.json").write_text(raw, encoding="utf-8")
    rows = {tuple(Tokenizer(tmp_path, 64).encode(["of this license"])[0].ids) for _ in range(9)}
    assert len(rows) == 1


def test_the_frame_is_found_in_a_vocabulary_without_letters(tmp_path: Path) -> None:
    rust = Rust(models.BPE({"[": 0, "]": 1, "京": 2}, []))
    kinds.frame(rust, "[ $A ]")
    rust.save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer(tmp_path, 4).encode(["京京京a京"], "left")[0].ids == [0, 2, 2, 1]
