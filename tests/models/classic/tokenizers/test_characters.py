"""Tests of the tokenizer of bytes; that of code points is tested in `classic/test_canine.py`."""

from pathlib import Path

import pytest

from embedwell_classic.tokenizers.characters import CharacterTokenizer
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading.tokenizer_kind import CHARACTER_FILE
from embedwell_models.tokenizer.tokenizer import Tokenizer


def test_ids_are_bytes_and_a_word_begins_below_256() -> None:
    encoding = CharacterTokenizer(True).encode("né, a")
    assert encoding.ids == [ord("n"), 256 + 0xC3, 256 + 0xA9, ord(","), ord("a")]
    assert encoding.tokens == ["né", "né", "né", ",", "a"]
    assert encoding.offsets == [(0, 2), (0, 2), (0, 2), (2, 3), (4, 5)]


@pytest.mark.parametrize(
    ("split", "words"),
    [(True, ["well-known", ",", "U.S", ".", "don't", "'", "x", "'", "😀"]), (False, None)],
)
def test_words_end_at_spaces_and_at_punctuation(split: bool, words: list[str] | None) -> None:
    text = "well-known, U.S. don't 'x' 😀"
    encoding = CharacterTokenizer(split).encode(text)
    pairs = zip(encoding.ids, encoding.tokens, strict=True)
    assert [token for id, token in pairs if id < 256] == (words or text.split())


def test_names_and_decoding() -> None:
    tokenizer = CharacterTokenizer(True)
    assert [tokenizer.id_to_token(id) for id in (97, 353, 0xC3, 512, -1)] == [
        *("a", "a", "<0xC3>", None, None)
    ]
    assert [tokenizer.token_to_id(token) for token in ("a", "ab", "é")] == [97, None, None]
    assert tokenizer.decode_batch([tokenizer.encode("né a").ids, []]) == ["né a", ""]


def test_a_long_text_is_split_into_chunks_with_the_same_ids(tmp_path: Path) -> None:
    (tmp_path / CHARACTER_FILE).write_text("{}", encoding="utf-8")
    text = "some words, and others. " * 100
    tokenizer = Tokenizer(tmp_path, 1 << 20, chunk_size=50)
    assert [token.id for token in tokenizer.tokens(text)] == CharacterTokenizer(True).encode(
        text
    ).ids


def test_a_wrong_option_is_refused(tmp_path: Path) -> None:
    (tmp_path / CHARACTER_FILE).write_text('{"split_punctuation": 3}', encoding="utf-8")
    with pytest.raises(ModelError, match="split_punctuation = 3 is not true or false"):
        Tokenizer(tmp_path, 10)
