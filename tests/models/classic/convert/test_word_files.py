"""Files of word vectors that contain something else than vectors of the promised number."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from embedwell_classic.convert.word_embeddings import Choices, convert_words
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats
from tests.models.word_files import WORDS, vectors, write_binary, write_fasttext, write_text

TABLE = vectors()


def refusal(path: Path, limit: int | None = None) -> str:
    """Return the message that names the file; no folder is left."""
    with pytest.raises(ModelError) as raised:
        convert_words(path, path.with_name("inner") / "model", Choices(limit=limit))
    assert path.name in str(raised.value) and not [*path.parent.glob("inner/*")]
    return str(raised.value)


def with_spaces(word: str, place: int) -> list[str]:
    return [*WORDS[:place], word, *WORDS[place + 1 :]]


@pytest.mark.parametrize("newline", [b"\n", b""])
@pytest.mark.parametrize("word", ["New York", "a b", "of the", "two  spaces", " x", "x "])
@pytest.mark.parametrize("place", [0, 4, len(WORDS) - 1])
@pytest.mark.parametrize("width", [12, 50])
def test_a_word_with_a_space_in_a_binary_file_is_named(
    tmp_path: Path, word: str, place: int, newline: bytes, width: int
) -> None:
    table, words = vectors(width=width), with_spaces(word, place)
    message = refusal(write_binary(tmp_path / "a.bin", table, words, newline))
    assert "byte " in message and "no space" in message


@pytest.mark.parametrize("newline", [b"\n", b""])
def test_a_binary_file_may_have_large_and_small_numbers_and_words_cut_inside_a_character(
    tmp_path: Path, newline: bytes
) -> None:
    table = TABLE.copy()
    table[0, :4] = [1e9, -1e9, 1e-30, 0]
    path = write_binary(tmp_path / "a.bin", table, newline=newline)
    path.write_bytes(path.read_bytes().replace("日本".encode(), "日本".encode()[:-1]))
    convert_words(path, tmp_path / "model")
    assert (tmp_path / "model" / "modules.json").is_file()


@pytest.mark.parametrize("newline", [b"\n", b""])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content + b"more", "4 bytes more"),
        (lambda content: content.replace(b"10 12\n", b"9 12\n"), "bytes more"),
        (lambda content: content.replace(b"10 12\n", b"11 12\n"), "it has 10 words"),
        (lambda content: content.replace(b"10 12\n", b"10 11\n"), "byte "),
        (lambda content: content.replace(b"10 12\n", b"10 13\n"), "byte |it has"),
        (lambda content: content.replace(b"king ", b"ki\xffng "), "byte "),
        (lambda content: content.replace(b"king ", b" "), "byte "),
    ],
)
def test_a_binary_file_of_another_size_or_with_damaged_words_is_refused(
    tmp_path: Path, change: Callable[[bytes], bytes], message: str, newline: bytes
) -> None:
    path = write_binary(tmp_path / "a.bin", TABLE, newline=newline)
    path.write_bytes(change(path.read_bytes()))
    assert any(part in refusal(path) for part in message.split("|"))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_numbers_that_no_training_gives_are_refused_with_their_word(
    tmp_path: Path, value: float
) -> None:
    table = TABLE.copy()
    table[3, 5] = value
    assert "word 4 ('man')" in refusal(write_binary(tmp_path / "a.bin", table))


def test_a_text_file_with_the_suffix_of_a_binary_file_is_refused(tmp_path: Path) -> None:
    refusal(write_text(tmp_path / "a.bin", TABLE))
    tenths = np.round(np.abs(TABLE), 1).clip(0, 0.9)  # each number is 4 bytes with its space
    assert "as text" in refusal(write_text(tmp_path / "b.bin", tenths))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"2 2\nthe 1 2\nking 3 4\nqueen 5 6\n", "line 4 is one more than the 2 words"),
        (b"2 2\nthe 1 2\nking 3 4 5\n", "line 3 has more than 2 numbers"),
        (b"the 1 2\nking 3 4 5\n", "line 2 has more than 2 numbers"),
        (b"the 1 2\nking 3 -.4e-3 5\n", "line 2 has more than 2 numbers"),
        (b"the 1 2\nking 3 nan\n", "line 2 has NaN or infinity"),
        (b"the 1 2\nking -inf 3\n", "line 2 has NaN or infinity"),
        (b"the 1 2\nking 3 1e39\n", "line 2 has NaN or infinity"),
        (b"the 1 2\nking 1_0 3\n", "line 2 has values that are not numbers"),
        (b"the 1 2\n 3 4\n", "line 2 has no word"),
        (b"the 1 2\nking\t3 4\n", "line 2 has"),
        (b"the 1 2\nking  3 4\n", "line 2 has no single space after its word"),
        (b"the 1 2\n\n", "line 2 has 0 numbers, not 2"),
        (b"hello world\nthis is prose\n", "line 1 has values that are not numbers"),
    ],
)
def test_a_line_that_is_not_a_word_and_its_numbers_is_named(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    assert message in refusal(tmp_path / "a.txt")


def test_a_text_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.txt", TABLE)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    convert_words(path, tmp_path / "model")
    path = write_text(tmp_path / "b.vec", TABLE, header=False)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    convert_words(path, tmp_path / "other")
    weights = [tmp_path / name / "model.safetensors" for name in ("model", "other")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.mark.parametrize("name", ["a.txt", "a.bin"])
def test_nothing_beyond_the_limit_is_read(tmp_path: Path, name: str) -> None:
    write = write_text if name == "a.txt" else write_binary
    path = write(tmp_path / name, TABLE)
    path.write_bytes(path.read_bytes() + b"nonsense")
    convert_words(path, tmp_path / "model", Choices(limit=3))
    refusal(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-1], "1 bytes are missing at its end"),
        (lambda content: content + b"\0\0", "2 bytes more"),
        (lambda content: content[: -4 * TABLE.size - 17], "is truncated"),
        (
            lambda content: content.replace(
                b"king\0" + struct.pack("<q", 999), b"king\0" + b"\xff" * 8
            ),
            "'king' has the count -1",
        ),
        (lambda content: content.replace(b"king\0", b"\0"), "word 2 is empty"),
    ],
)
def test_a_model_of_fasttext_is_read_to_its_end(
    tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    path = write_fasttext(tmp_path / "a.bin")
    path.write_bytes(change(path.read_bytes()))
    assert message in refusal(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [(1, r"word 2 \('king'\)"), (len(WORDS) + 1999, f"row {len(WORDS) + 1999} ")],
)
def test_a_row_of_fasttext_that_is_not_finite_is_named(
    tmp_path: Path, row: int, message: str
) -> None:
    path = write_fasttext(tmp_path / "a.bin", buckets=2000)
    table: Floats = vectors(len(WORDS) + 2000, seed=3)
    content = path.read_bytes()
    place = content.index(table.tobytes()) + row * table[0].nbytes
    path.write_bytes(content[:place] + np.float32(np.nan).tobytes() + content[place + 4 :])
    with pytest.raises(ModelError, match=f"{message}.*has NaN or infinity"):
        convert_words(path, tmp_path / "model")


def test_a_packed_file_with_a_wrong_bit_is_refused(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.txt.gz", TABLE)
    packed = bytearray(gzip.compress(b"the 0.5 0.25\n" * 2000, mtime=0))
    packed[12:40] = bytes(b ^ 0xFF for b in packed[12:40])
    path.write_bytes(packed)
    assert "cannot be converted" in refusal(path)
