"""Tests of the tokenizer, against transformers."""

import json
import threading
import time
import unicodedata
from collections.abc import Callable
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Token, TruncatedIds
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


def test_dropped_counts_the_tokens_cut_off(
    tokenizer: Tokenizer, theirs: Any, texts: list[str]
) -> None:
    full = [len(ids) for ids in theirs(texts, truncation=False, verbose=False)["input_ids"]]
    rows = tokenizer.encode(texts, count_limit=inf)
    assert [row.dropped for row in rows] == [max(length - 256, 0) for length in full]
    assert any(row.dropped for row in rows)


@pytest.mark.parametrize(("side", "body"), [("right", [5, 6, 7]), ("left", [9, 10, 11])])
def test_truncation_keeps_the_special_tokens_of_a_text(
    minilm_folder: Path, side: Any, body: list[int]
) -> None:
    short = Tokenizer(minilm_folder, 5)
    row = short.truncate([CLS, 5, 6, 7, 8, 9, 10, 11, SEP], side)
    assert row == TruncatedIds([CLS, *body, SEP], 4)


@pytest.mark.parametrize(
    ("ids", "right", "left"),
    [
        ([5, 6, 7, 8], [5, 6, 7], [6, 7, 8]),
        ([CLS, 5, 6, 7], [CLS, 5, 6], [CLS, 6, 7]),
        ([5, 6, 7, SEP], [5, 6, SEP], [6, 7, SEP]),
        ([CLS, 5, 6, SEP], [CLS, 5, SEP], [CLS, 6, SEP]),
        ([CLS, 5, SEP], [CLS, 5, SEP], [CLS, 5, SEP]),
    ],
)
def test_truncated_ids_keep_the_special_tokens_that_they_have(
    minilm_folder: Path, ids: list[int], right: list[int], left: list[int]
) -> None:
    short = Tokenizer(minilm_folder, 3)
    assert short.truncate(ids).ids == right
    assert short.truncate(ids, "left").ids == left


@pytest.fixture(scope="module")
def short(minilm_folder: Path) -> Callable[[int], Tokenizer]:
    """Function that returns a tokenizer of so many tokens, which its first call loads."""
    return cache(lambda length: Tokenizer(minilm_folder, length))


@pytest.mark.full
@given(
    length=st.integers(0, 20),
    room=st.integers(3, 12),
    special=st.booleans(),
    side=st.sampled_from(["right", "left"]),
)
def test_truncation_leaves_at_most_the_maximum_length(
    short: Callable[[int], Tokenizer], length: int, room: int, special: bool, side: Any
) -> None:
    body = list(range(1000, 1000 + length))
    ids = [CLS, *body, SEP] if special else body
    row = short(room).truncate(ids, side)
    assert len(row.ids) == min(len(ids), room)
    assert row.dropped == len(ids) - len(row.ids)


@pytest.mark.parametrize("side", ["right", "left"])
def test_an_excerpt_of_exactly_the_maximum_length_is_not_used(
    minilm_folder: Path, side: Any
) -> None:
    short = Tokenizer(minilm_folder, 4)  # of which an excerpt has 64 to 128 characters
    words = ["the", "x" * 101, "work" * 10, "work"]  # the second is one token, [UNK]
    text = " ".join(words if side == "right" else reversed(words))
    assert short.encode([text], side) == short.encode([text], side, count_limit=inf)
    assert (
        run_to_completion(short.encode_with_tokens(text, "", side))[0]
        == short.encode([text], side)[0]
    )


def test_dropped_tokens_are_counted_up_to_the_limit(minilm_folder: Path) -> None:
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


def test_an_empty_text_has_two_special_tokens(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode([""]) == [TruncatedIds([CLS, SEP])]
    assert tokenizer.encode([]) == []


def test_offsets_equal_those_of_transformers_plus_combining_marks(
    tokenizer: Tokenizer, theirs: Any, texts: list[str]
) -> None:
    longer = 0
    for text in texts:
        expected = theirs(text, return_offsets_mapping=True, verbose=False)
        tokens = tokenizer.tokens(text)
        assert [token.id for token in tokens] == expected["input_ids"]
        for token, (start, stop) in zip(tokens, expected["offset_mapping"], strict=True):
            assert (token.start or 0) == start
            marks = text[stop : token.stop or 0]
            assert all(map(unicodedata.combining, marks))
            longer += len(marks)
    assert longer == 1


def test_a_token_has_its_characters_of_the_text(tokenizer: Tokenizer, texts: list[str]) -> None:
    for text in texts:
        for token in tokenizer.tokens(text):
            if token.special:
                assert (token.start, token.stop) == (None, None)
            else:
                assert token.text == text[token.start : token.stop] != ""


METHODS: dict[str, Callable[[Tokenizer, str], object]] = {
    "encode": lambda tokenizer, text: tokenizer.encode([text], count_limit=inf),
    "tokens": lambda tokenizer, text: tokenizer.tokens(text[:200_000]),  # of which each is made
    "encode_with_tokens": lambda tokenizer, text: run_to_completion(
        tokenizer.encode_with_tokens(text, count_limit=inf)
    ),
}


@pytest.mark.parametrize("read", METHODS.values(), ids=METHODS)
def test_other_threads_run_while_a_long_text_is_tokenized(
    tokenizer: Tokenizer, read: Callable[[Tokenizer, str], object]
) -> None:
    reader, turns = threading.Thread(target=read, args=[tokenizer, "x " * 500_000]), 0
    reader.start()
    while reader.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns > 20


def test_special_tokens_have_their_name_and_a_flag(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.tokens("Hello world")
    assert [(token.text, token.special) for token in tokens] == [
        ("[CLS]", True),
        ("Hello", False),
        ("world", False),
        ("[SEP]", True),
    ]
    assert [token.text for token in tokenizer.tokens("Hello world", special=False)] == [
        "Hello",
        "world",
    ]


def test_offsets_start_at_the_text_after_the_prompt(tokenizer: Tokenizer) -> None:
    prompt, text = "query: ", "the café closed"
    tokens = tokenizer.tokens(text, prompt)
    assert [token.id for token in tokens] == tokenizer.encode([prompt + text])[0].ids
    shown = [(token.text, token.start, token.stop, token.special) for token in tokens]
    assert shown == [
        ("[CLS]", None, None, True),
        ("query", None, None, False),
        (":", None, None, False),
        ("the", 0, 3, False),
        ("café", 4, 8, False),
        ("closed", 9, 15, False),
        ("[SEP]", None, None, True),
    ]


def test_tokens_of_a_prompt_without_a_space_after_it_have_no_offsets(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.tokens("now", "say:", special=False)
    assert [(token.start, token.stop) for token in tokens] == [(None, None), (None, None), (0, 3)]


def test_a_token_across_prompt_and_text_has_its_characters_of_the_text(
    tokenizer: Tokenizer,
) -> None:
    (token,) = [token for token in tokenizer.tokens("port now", "pass") if token.text == "port"]
    assert (token.start, token.stop) == (0, 4)
    assert tokenizer.encode(["passport"])[0].ids[1] == token.id


@pytest.mark.parametrize("side", ["right", "left"])
def test_encode_with_tokens_returns_the_ids_of_encode_and_their_tokens(
    tokenizer: Tokenizer, texts: list[str], side: Any
) -> None:
    for text in texts:
        row, tokens = run_to_completion(tokenizer.encode_with_tokens(text, "query: ", side))
        assert row == tokenizer.encode(["query: " + text], side)[0]
        assert [token.id for token in tokens] == row.ids
        full = tokenizer.tokens(text, "query: ")
        assert tokens == (full if not row.dropped else [full[i] for i in remaining(full, side)])


def remaining(tokens: list[Token], side: str) -> list[int]:
    """Indices of 256 tokens that remain after truncation."""
    last = len(tokens) - 1
    return [*range(255), last] if side == "right" else [0, *range(last - 254, last + 1)]


def test_decoding_returns_the_text(tokenizer: Tokenizer, theirs: Any) -> None:
    texts = ["hello world, how are you?", "unaffable passports", ""]
    ids = [row.ids for row in tokenizer.encode(texts)]
    assert tokenizer.decode(ids) == texts
    with_special = tokenizer.decode(ids, skip_special=False)
    assert with_special[0] == "[CLS] hello world, how are you? [SEP]"
    assert tokenizer.decode([[CLS, 7592, SEP]]) == ["hello"]


def test_the_vocabulary_size_includes_added_tokens(tokenizer: Tokenizer) -> None:
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


@pytest.mark.parametrize("config", [{}, {"truncation_side": "left"}, {"truncation_side": "right"}])
@pytest.mark.parametrize("file", [None, LEFT, LEFT | {"direction": "Right"}], ids=str)
@pytest.mark.parametrize("named", ["BertTokenizer", "TokenizersBackend"])
def test_the_truncation_side_is_that_of_the_files(
    tiny_bert: Folder, config: dict[str, str], file: object, named: str
) -> None:
    options = {"tokenizer_class": named, **config}
    folder, texts = tiny_bert({"tokenizer_config.json": options}), [LONG, "of the"]
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"truncation": file}))
    theirs: Any = AutoTokenizer.from_pretrained(folder)
    expected = theirs(texts, truncation=True, max_length=16)["input_ids"]
    tokenizer = Tokenizer(folder, 16)
    assert [row.ids for row in tokenizer.encode(texts)] == expected
    assert [
        run_to_completion(tokenizer.encode_with_tokens(text))[0].ids for text in texts
    ] == expected
    full = Tokenizer(folder, 10_000).encode(texts)
    assert [tokenizer.truncate(row.ids).ids for row in full] == expected
    assert tokenizer.encode(texts, "left") != tokenizer.encode(texts, "right")


def test_an_unknown_truncation_side_is_refused(tiny_bert: Folder) -> None:
    with pytest.raises(ModelError, match="truncation_side = 'up' is not supported"):
        Tokenizer(tiny_bert({"tokenizer_config.json": {"truncation_side": "up"}}), 16)


def test_a_tokenizer_without_special_tokens_truncates(tmp_path: Path, tiny_bert: Folder) -> None:
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
    names = ["[CLS]", "[MASK]", None, "[UNK]", "[SEP]"]
    raw["post_processor"]["single"] = [
        {"SpecialToken": {"id": name, "type_id": 0}}
        if name
        else {"Sequence": {"id": "A", "type_id": 0}}
        for name in names
    ]
    special = {name: SPECIAL[name] for name in names if name}
    raw["post_processor"]["special_tokens"] = {
        name: {"id": name, "ids": [id], "tokens": [name]} for name, id in special.items()
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    full = Tokenizer(path.parent, 64).encode(["of the work that"])[0].ids
    assert [full[i] for i in (0, 1, -2, -1)] == list(special.values())
    assert Tokenizer(path.parent, 6).truncate(full).ids == [*full[:4], *full[-2:]]
    assert Tokenizer(path.parent, 6).truncate(full, "left").ids == [*full[:2], *full[-4:]]


def test_lowercasing_gives_the_ids_of_lowercase_text(tiny_bert: Folder) -> None:
    path = tiny_bert() / "tokenizer.json"
    lowercasing, plain = Tokenizer(path.parent, 64, lowercase=True), Tokenizer(path.parent, 64)
    assert lowercasing.encode(["The WORK"]) == plain.encode(["the work"])
    assert plain.encode(["The WORK"]) != plain.encode(["the work"])


def test_lowercasing_changes_nothing_for_an_uncased_model(
    minilm_folder: Path, tokenizer: Tokenizer, texts: list[str]
) -> None:
    lowercasing = Tokenizer(minilm_folder, 256, lowercase=True)
    assert lowercasing.encode(texts) == tokenizer.encode(texts)


def test_offsets_of_lowercased_text_are_those_of_the_original(tiny_bert: Folder) -> None:
    # The lowercase of İ is two characters, so the lowercased text is longer.
    tokenizer = Tokenizer(tiny_bert(), 64, lowercase=True)
    (token,) = [token for token in tokenizer.tokens("İ The") if token.text == "The"]
    assert (token.start, token.stop) == (2, 5)


@pytest.mark.parametrize("content", ["", "{}", '{"version": "1.0", "model": {"type": "none"}}'])
def test_the_error_names_a_broken_tokenizer_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        Tokenizer(path.parent, 8)


def test_the_error_names_a_missing_tokenizer_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
        Tokenizer(tmp_path, 8)


def test_a_length_without_room_for_a_text_is_refused(minilm_folder: Path) -> None:
    with pytest.raises(ModelError, match="length of 2 leaves no room"):
        Tokenizer(minilm_folder, 2)
