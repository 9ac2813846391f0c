"""Tests of tokenising, against transformers."""

import json
import threading
import time
import unicodedata
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from models.errors import ModelError
from models.tokenizer.cooperative import run_to_completion
from models.tokenizer.tokenizer import Token, Tokenizer, TruncatedIds
from tests.conftest import WORDS, Folder
from tests.models.tiny import SPECIAL

CLS, SEP = 101, 102
LONG = " ".join(WORDS[:600])


@pytest.fixture(scope="module")
def tokenizer(minilm_folder: Path) -> Tokenizer:
    return Tokenizer(minilm_folder, 256)


@pytest.fixture(scope="module")
def theirs(minilm_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(minilm_folder)


@pytest.mark.parametrize("side", ["right", "left"])
def test_ids_equal_those_of_transformers(
    tokenizer: Tokenizer, theirs: Any, texts: list[str], side: Any
) -> None:
    theirs.truncation_side = side
    expected = theirs(texts, truncation=True, max_length=256)["input_ids"]
    assert [row.ids for row in tokenizer.encode(texts, side)] == expected
    assert max(map(len, expected)) == 256


def test_dropped_counts_what_was_cut(tokenizer: Tokenizer, theirs: Any, texts: list[str]) -> None:
    whole = [len(ids) for ids in theirs(texts, truncation=False, verbose=False)["input_ids"]]
    rows = tokenizer.encode(texts, count_limit=inf)
    assert [row.dropped for row in rows] == [max(length - 256, 0) for length in whole]
    assert any(row.dropped for row in rows)


@pytest.mark.parametrize(("side", "kept"), [("right", [5, 6, 7]), ("left", [9, 10, 11])])
def test_a_text_longer_than_the_model_reads_keeps_its_special_tokens(
    minilm_folder: Path, side: Any, kept: list[int]
) -> None:
    short = Tokenizer(minilm_folder, 5)
    row = short.truncate([CLS, 5, 6, 7, 8, 9, 10, 11, SEP], side)
    assert row == TruncatedIds([CLS, *kept, SEP], 4)


@pytest.mark.parametrize(
    ("given", "right", "left"),
    [
        ([5, 6, 7, 8], [5, 6, 7], [6, 7, 8]),
        ([CLS, 5, 6, 7], [CLS, 5, 6], [CLS, 6, 7]),
        ([5, 6, 7, SEP], [5, 6, SEP], [6, 7, SEP]),
        ([CLS, 5, 6, SEP], [CLS, 5, SEP], [CLS, 6, SEP]),
        ([CLS, 5, SEP], [CLS, 5, SEP], [CLS, 5, SEP]),
    ],
)
def test_ids_that_were_given_keep_the_special_ones_that_they_have(
    minilm_folder: Path, given: list[int], right: list[int], left: list[int]
) -> None:
    short = Tokenizer(minilm_folder, 3)
    assert short.truncate(given).ids == right
    assert short.truncate(given, "left").ids == left


@given(
    length=st.integers(0, 20),
    room=st.integers(3, 12),
    special=st.booleans(),
    side=st.sampled_from(["right", "left"]),
)
def test_a_cut_never_leaves_more_than_the_model_reads(
    minilm_folder: Path, length: int, room: int, special: bool, side: Any
) -> None:
    body = list(range(1000, 1000 + length))
    ids = [CLS, *body, SEP] if special else body
    row = Tokenizer(minilm_folder, room).truncate(ids, side)
    assert len(row.ids) == min(len(ids), room)
    assert row.dropped == len(ids) - len(row.ids)


@pytest.mark.parametrize("side", ["right", "left"])
def test_an_excerpt_of_just_the_length_is_not_trusted(minilm_folder: Path, side: Any) -> None:
    short = Tokenizer(minilm_folder, 4)  # of which an excerpt has 64 to 128 characters
    words = ["the", "x" * 101, "work" * 10, "work"]  # the second is one token, [UNK]
    text = " ".join(words if side == "right" else reversed(words))
    assert short.encode([text], side) == short.encode([text], side, count_limit=inf)
    assert short.encode_with_tokens(text, "", side)[0] == short.encode([text], side)[0]


def test_tokens_are_counted_no_further_than_is_asked(minilm_folder: Path) -> None:
    tokenizer = Tokenizer(minilm_folder, 8, chunk_size=100)
    assert run_to_completion(tokenizer.count_tokens("word " * 1000)) == 1002
    (row,) = tokenizer.encode(["word " * 1000], count_limit=50)
    assert len(row.ids) == 8 and 42 < row.dropped < 100


def test_dropped_unknown_tokens_are_not_counted(minilm_folder: Path) -> None:
    text = f"the {'x' * 101} " * 20  # every other token is unknown
    for special in (True, False):
        tokenizer = Tokenizer(minilm_folder, 64, file_only=not special, keep_unknown=False)
        count = run_to_completion(tokenizer.count_tokens(text))
        assert count == len(tokenizer.encode([text])[0].ids) == 20 + 2 * special


def test_no_text_is_still_two_special_tokens(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode([""]) == [TruncatedIds([CLS, SEP])]
    assert tokenizer.encode([]) == []


def test_offsets_equal_those_of_transformers_but_take_in_the_marks_of_a_letter(
    tokenizer: Tokenizer, theirs: Any, texts: list[str]
) -> None:
    longer = 0
    for text in texts:
        expected = theirs(text, return_offsets_mapping=True, verbose=False)
        found = tokenizer.tokens(text)
        assert [token.id for token in found] == expected["input_ids"]
        for token, (start, stop) in zip(found, expected["offset_mapping"], strict=True):
            assert (token.start or 0) == start
            marks = text[stop : token.stop or 0]
            assert all(map(unicodedata.combining, marks))
            longer += len(marks)
    assert longer == 1


def test_a_token_shows_its_characters_of_the_text(tokenizer: Tokenizer, texts: list[str]) -> None:
    for text in texts:
        for token in tokenizer.tokens(text):
            if token.special:
                assert (token.start, token.stop) == (None, None)
            else:
                assert token.text == text[token.start : token.stop] != ""


READINGS: dict[str, Callable[[Tokenizer, str], object]] = {
    "encode": lambda tokenizer, text: tokenizer.encode([text], count_limit=inf),
    "tokens": lambda tokenizer, text: tokenizer.tokens(text),
    "describe": lambda tokenizer, text: tokenizer.encode_with_tokens(text, count_limit=inf),
}


@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
def test_other_threads_run_while_a_long_text_is_read(
    tokenizer: Tokenizer, read: Callable[[Tokenizer, str], object]
) -> None:
    reader, turns = threading.Thread(target=read, args=[tokenizer, "x" * 1_000_000]), 0
    reader.start()
    while reader.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns > 20


def test_special_tokens_are_named_and_marked(tokenizer: Tokenizer) -> None:
    found = tokenizer.tokens("Hello world")
    assert [(token.text, token.special) for token in found] == [
        ("[CLS]", True),
        ("Hello", False),
        ("world", False),
        ("[SEP]", True),
    ]
    assert [token.text for token in tokenizer.tokens("Hello world", special=False)] == [
        "Hello",
        "world",
    ]


def test_offsets_count_from_the_text_and_not_from_its_prompt(tokenizer: Tokenizer) -> None:
    prompt, text = "query: ", "the café closed"
    found = tokenizer.tokens(text, prompt)
    assert [token.id for token in found] == tokenizer.encode([prompt + text])[0].ids
    shown = [(token.text, token.start, token.stop, token.special) for token in found]
    assert shown == [
        ("[CLS]", None, None, True),
        ("query", None, None, False),
        (":", None, None, False),
        ("the", 0, 3, False),
        ("café", 4, 8, False),
        ("closed", 9, 15, False),
        ("[SEP]", None, None, True),
    ]


def test_a_prompt_that_touches_the_text_is_still_no_part_of_it(tokenizer: Tokenizer) -> None:
    found = tokenizer.tokens("now", "say:", special=False)
    assert [(token.start, token.stop) for token in found] == [(None, None), (None, None), (0, 3)]


def test_a_token_that_begins_in_the_prompt_shows_its_part_of_the_text(
    tokenizer: Tokenizer,
) -> None:
    (token,) = [token for token in tokenizer.tokens("port now", "pass") if token.text == "port"]
    assert (token.start, token.stop) == (0, 4)
    assert tokenizer.encode(["passport"])[0].ids[1] == token.id


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_text_is_described_by_its_ids_and_the_token_of_each(
    tokenizer: Tokenizer, texts: list[str], side: Any
) -> None:
    for text in texts:
        row, found = tokenizer.encode_with_tokens(text, "query: ", side)
        assert row == tokenizer.encode(["query: " + text], side)[0]
        assert [token.id for token in found] == row.ids
        whole = tokenizer.tokens(text, "query: ")
        assert found == (whole if not row.dropped else [whole[i] for i in kept(whole, side)])


def kept(whole: list[Token], side: str) -> list[int]:
    last = len(whole) - 1
    return [*range(255), last] if side == "right" else [0, *range(last - 254, last + 1)]


def test_decoding_gives_the_text_back(tokenizer: Tokenizer, theirs: Any) -> None:
    texts = ["hello world, how are you?", "unaffable passports", ""]
    ids = [row.ids for row in tokenizer.encode(texts)]
    assert tokenizer.decode(ids) == texts
    kept = tokenizer.decode(ids, skip_special=False)
    assert kept[0] == "[CLS] hello world, how are you? [SEP]"
    assert tokenizer.decode([[CLS, 7592, SEP]]) == ["hello"]


def test_the_vocabulary_is_counted_with_added_tokens(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == 30522


def test_padding_and_truncation_of_the_file_are_ignored(tmp_path: Path, tiny_bert: Folder) -> None:
    path = tiny_bert() / "tokenizer.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    plain = Tokenizer(path.parent, 64).encode(["of the", "to any license " * 9])
    raw["truncation"] = {
        "direction": "Right",
        "max_length": 4,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    raw["padding"] = {
        "strategy": {"Fixed": 64},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    changed = tmp_path / "tokenizer.json"
    changed.write_text(json.dumps(raw), encoding="utf-8")
    assert Tokenizer(changed.parent, 64).encode(["of the", "to any license " * 9]) == plain
    assert [len(row.ids) for row in plain] == [4, 29]


LEFT = {"direction": "Left", "max_length": 9, "strategy": "LongestFirst", "stride": 0}


@pytest.mark.parametrize("own", [{}, {"truncation_side": "left"}, {"truncation_side": "right"}])
@pytest.mark.parametrize("file", [None, LEFT, LEFT | {"direction": "Right"}], ids=str)
@pytest.mark.parametrize("named", ["BertTokenizer", "TokenizersBackend"])
def test_a_long_text_is_cut_where_the_files_say(
    tiny_bert: Folder, own: dict[str, str], file: object, named: str
) -> None:
    options = {"tokenizer_class": named, **own}
    folder, texts = tiny_bert({"tokenizer_config.json": options}), [LONG, "of the"]
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"truncation": file}))
    theirs: Any = AutoTokenizer.from_pretrained(folder)
    expected = theirs(texts, truncation=True, max_length=16)["input_ids"]
    tokenizer = Tokenizer(folder, 16)
    assert [row.ids for row in tokenizer.encode(texts)] == expected
    assert [tokenizer.encode_with_tokens(text)[0].ids for text in texts] == expected
    whole = Tokenizer(folder, 10_000).encode(texts)
    assert [tokenizer.truncate(row.ids).ids for row in whole] == expected
    assert tokenizer.encode(texts, "left") != tokenizer.encode(texts, "right")


def test_a_side_that_is_none_is_refused(tiny_bert: Folder) -> None:
    with pytest.raises(ModelError, match="truncation_side = 'up' is not supported"):
        Tokenizer(tiny_bert({"tokenizer_config.json": {"truncation_side": "up"}}), 16)


def test_a_tokenizer_without_special_tokens_adds_none(tmp_path: Path, tiny_bert: Folder) -> None:
    raw = json.loads((tiny_bert() / "tokenizer.json").read_text(encoding="utf-8"))
    raw["post_processor"] = None
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    ids = Tokenizer(path.parent, 64).encode(["of the work"])[0].ids
    assert len(ids) == 3
    assert Tokenizer(path.parent, 2).truncate(ids) == TruncatedIds(ids[:2], 1)
    assert Tokenizer(path.parent, 2).truncate(ids, "left") == TruncatedIds(ids[1:], 1)


def test_several_special_tokens_on_each_side_are_kept(tmp_path: Path, tiny_bert: Folder) -> None:
    raw = json.loads((tiny_bert() / "tokenizer.json").read_text(encoding="utf-8"))
    pieces = ["[CLS]", "[MASK]", None, "[UNK]", "[SEP]"]
    raw["post_processor"]["single"] = [
        {"SpecialToken": {"id": piece, "type_id": 0}}
        if piece
        else {"Sequence": {"id": "A", "type_id": 0}}
        for piece in pieces
    ]
    special = {piece: SPECIAL[piece] for piece in pieces if piece}
    raw["post_processor"]["special_tokens"] = {
        piece: {"id": piece, "ids": [id], "tokens": [piece]} for piece, id in special.items()
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    whole = Tokenizer(path.parent, 64).encode(["of the work that"])[0].ids
    assert [whole[i] for i in (0, 1, -2, -1)] == list(special.values())
    assert Tokenizer(path.parent, 6).truncate(whole).ids == [*whole[:4], *whole[-2:]]
    assert Tokenizer(path.parent, 6).truncate(whole, "left").ids == [*whole[:2], *whole[-4:]]


def test_lowercasing_gives_the_ids_of_small_letters(tiny_bert: Folder) -> None:
    path = tiny_bert() / "tokenizer.json"
    small, given = Tokenizer(path.parent, 64, lowercase=True), Tokenizer(path.parent, 64)
    assert small.encode(["The WORK"]) == given.encode(["the work"])
    assert given.encode(["The WORK"]) != given.encode(["the work"])


def test_lowercasing_equals_that_of_the_models_own_tokenizer(
    minilm_folder: Path, tokenizer: Tokenizer, texts: list[str]
) -> None:
    small = Tokenizer(minilm_folder, 256, lowercase=True)
    assert small.encode(texts) == tokenizer.encode(texts)


def test_lowercasing_keeps_the_offsets_of_the_text_as_given(tiny_bert: Folder) -> None:
    # A small dotted I is two characters, so the lowered text is longer.
    tokenizer = Tokenizer(tiny_bert(), 64, lowercase=True)
    (found,) = [token for token in tokenizer.tokens("İ The") if token.text == "The"]
    assert (found.start, found.stop) == (2, 5)


@pytest.mark.parametrize("content", ["", "{}", '{"version": "1.0", "model": {"type": "none"}}'])
def test_a_broken_tokenizer_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        Tokenizer(path.parent, 8)


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
        Tokenizer(tmp_path, 8)


def test_a_length_without_room_for_a_text_is_refused(minilm_folder: Path) -> None:
    with pytest.raises(ModelError, match="length of 2 leaves no room"):
        Tokenizer(minilm_folder, 2)
