"""Reading of Word2Vec's binary format: a line with both sizes, then words and float32 numbers.

A space ends a word, and nothing marks its start, so a word with a space would shift all numbers
after it.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from embedwell_models.convert.words.plain import MAX_WIDTH
from embedwell_models.convert.words.source import WordVectors
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_MAX_WORD = 1 << 16  # bytes of a word
_MAX_NUMBER = 1e15  # training gives smaller numbers; shifted bytes give larger ones
_MIN_NUMBER = 1e-30  # of most numbers but zeros; shifted bytes of rounded numbers give smaller ones
_REMEDY = (
    "a binary file has no space inside a word; convert the vectors in their text format, or "
    "replace the spaces in words by underscores"
)


def read_binary(path: Path, limit: int | None) -> WordVectors:
    """Read Word2Vec's binary file.

    limit: maximum number of words to read; None for all. Raises ModelError.
    """
    with path.open("rb") as file:
        header = file.readline(64)
    sizes = header.split()
    if len(sizes) != 2 or not all(field.isdigit() for field in sizes):
        raise ModelError(f"{path} is not a binary file of Word2Vec or fastText")
    count, width = map(int, sizes)
    if not 0 < width <= MAX_WIDTH:
        raise ModelError(f"{path}: {width} dimensions are not possible")
    return WordVectors(width, _rows(path, width, limit, count, len(header)))


def _rows(
    path: Path, width: int, limit: int | None, count: int, place: int
) -> Iterator[tuple[str, Floats]]:
    """place: offset of the first word."""
    newline = b""  # before each word but the first; word2vec writes one, gensim does not
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for number in range(1, (count if limit is None else min(count, limit)) + 1):
            stop = data.find(b" ", place, place + _MAX_WORD)
            end = stop + 1 + 4 * width
            if stop < 0 or end > len(data):
                raise ModelError(
                    f"{path} is truncated at byte {place}: it has {number - 1} words, its first "
                    f"line says {count}; or {_REMEDY}"
                )
            word, numbers = data[place:stop], data[stop + 1 : end]
            if number == 2 and word.startswith(b"\n"):
                newline = b"\n"
            if number > 1:
                word = word.removeprefix(newline)
            if problem := _problem(word, numbers):
                name = word.decode(errors="replace")
                raise ModelError(
                    f"{path}, byte {place}: word {number} ({name!r}) {problem}; {_REMEDY}"
                )
            yield word.decode(errors="replace"), np.frombuffer(numbers, dtype="<f4")
            place = end
        if limit is None and (rest := data[place:].strip()):
            raise ModelError(
                f"{path} has {len(rest)} bytes more than its {count} words, from byte {place} on; "
                f"{_REMEDY}"
            )


def _problem(word: bytes, numbers: bytes) -> str | None:
    """Return why bytes are not a word and its numbers; None if they can be."""
    if not word:
        return "is empty"
    if any(byte in word for byte in b"\0\t\n"):
        return "has a tab, a line feed or a zero byte"
    if not _is_cut_utf8(word):
        return "is not UTF-8"
    sizes = np.abs(np.frombuffer(numbers, dtype="<f4"))
    if not sizes.max() < _MAX_NUMBER:  # also true for NaN
        return f"has a number that is NaN, or not less than {_MAX_NUMBER:g}"
    if 2 * np.count_nonzero((sizes < _MIN_NUMBER) & (sizes > 0)) > len(sizes):
        return f"has mostly numbers less than {_MIN_NUMBER:g}"
    return "has text in place of numbers" if _begins_with_text(numbers) else None


def _is_cut_utf8(word: bytes) -> bool:
    # word2vec cuts long words, even inside a character.
    try:
        word.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True


def _begins_with_text(numbers: bytes) -> bool:
    """Whether the last byte of a number is a space, and all bytes before it are text.

    This is the rest of a word if its length is a multiple of 4, so that no number is shifted. Such
    a number would be about 1e-19.
    """
    space = numbers[3::4].find(b" ")
    if space < 0:
        return False
    try:
        return numbers[: 4 * space + 3].decode().isprintable()
    except UnicodeDecodeError:
        return False
