"""Texts to words: white space, punctuation, case, stop words, n-grams, and long texts."""

from pathlib import Path

import pytest

from embedwell_classic.convert.word_embeddings import convert_words
from embedwell_classic.tokenizers.vocabulary import Subwords, Vocabulary, WordOptions
from embedwell_classic.tokenizers.words import UNKNOWN, WordTokenizer
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models.word_files import WORDS, vectors, write_text

KNOWN = ["the", "The", "king", "U.S.", "'tis", "-"]


def words(text: str, **options: object) -> list[tuple[str | None, str]]:
    """The name of each token's id, and its characters."""
    tokenizer = WordTokenizer(Vocabulary.of(KNOWN), WordOptions(**options))  # type: ignore[arg-type]
    encoding = tokenizer.encode(text)
    assert encoding.tokens == [text[start:stop] for start, stop in encoding.offsets]
    return list(zip(map(tokenizer.id_to_token, encoding.ids), encoding.tokens, strict=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the The THE", [("the", "the"), ("The", "The"), ("the", "THE")]),
        ("(king), KING! (The)", [("king", "king"), ("king", "KING"), ("The", "The")]),
        ("U.S. u.s. 'tis \"'tis\"", [("U.S.", "U.S."), (UNKNOWN, "u.s"), ("'tis", "'tis")]),
        ("- -- «king»", [("-", "-"), (UNKNOWN, "--"), (UNKNOWN, "«king»")]),
        (" \t\n\u00a0", []),
    ],
)
def test_a_word_is_found_as_written_or_bare_or_in_lower_case(
    text: str, expected: list[tuple[str, str]]
) -> None:
    assert words(text)[: len(expected)] == expected


def test_an_exact_look_up_takes_words_as_written() -> None:
    assert [name for name, _ in words("the, THE The", exact=True)] == [UNKNOWN, UNKNOWN, "The"]


def test_texts_are_lowercased_if_the_options_say_so() -> None:
    assert [name for name, _ in words("The KING", lowercase=True)] == ["the", "king"]


def test_stop_words_are_left_out_in_every_form() -> None:
    assert words("the The (the) THE king", stop_words=frozenset({"the"})) == [
        ("The", "The"),
        ("king", "king"),
    ]


def test_an_unknown_word_is_one_id_or_its_ngrams() -> None:
    options = WordOptions(subwords=Subwords(3, 3, 10))
    tokenizer = WordTokenizer(Vocabulary.of(KNOWN), options)
    ids = tokenizer.encode("kingly the").ids
    assert tokenizer.unknown_id == len(KNOWN) + 10
    expected = [len(KNOWN) + bucket for bucket in Subwords(3, 3, 10).of("kingly")]
    assert ids == [expected[0], *(id + tokenizer.unknown_id + 1 for id in expected[1:]), 0]
    assert tokenizer.decode_batch([ids]) == [f"{UNKNOWN} the"]
    assert tokenizer.encode("x" * 2000).ids == [tokenizer.unknown_id]


def test_a_word_is_the_same_when_it_comes_again() -> None:
    tokenizer = WordTokenizer(Vocabulary.of(KNOWN), WordOptions())
    text = "the (king) " + " ".join(f"w{number}" for number in range(40_000)) + " (king)"
    first, second = tokenizer.encode(text), tokenizer.encode(text)
    assert first == second
    assert first.ids[:2] == [0, 2] and first.ids[-1] == 2 and first.offsets[1] == (5, 9)


def test_long_texts_have_the_tokens_of_the_whole(tmp_path: Path) -> None:
    convert_words(write_text(tmp_path / "a.txt", vectors()), tmp_path / "model")
    whole = Tokenizer(tmp_path / "model", 1 << 20, file_only=True)
    chunked = Tokenizer(tmp_path / "model", 1 << 20, file_only=True, chunk_size=16)
    text = " ".join(WORDS * 20) + ", the (KING) 日本、queen\nman 1 1 。x"
    assert whole.encode([text])[0].ids == chunked.encode([text])[0].ids
    assert whole.tokens(text) == chunked.tokens(text)
    assert len(whole.tokens(text)) == 20 * len(WORDS) + 7
