"""Reading of files of word vectors, in text or binary: of Word2Vec, GloVe and fastText.

In Word2Vec's binary format, a space ends a word, and nothing marks its start, so a word with a
space would shift all numbers after it. fastText's n-grams give unknown words a vector (Bojanowski
et al. 2016, arXiv 1607.04606).
"""

import mmap
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from embedwell_classic.tokenizers.vocabulary import Subwords
from embedwell_models.checkpoint.tables import blocks
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_MAX_WIDTH = 1 << 16  # dimensions
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MAX_WORD = 1 << 16  # bytes of a word
_MAX_NUMBER = 1e15  # training gives smaller numbers; shifted bytes give larger ones
_MIN_NUMBER = 1e-30  # of most numbers but zeros; shifted bytes of rounded numbers give smaller ones
_REMEDY = (
    "a binary file has no space inside a word; convert the vectors in their text format, or "
    "replace the spaces in words by underscores"
)
_FASTTEXT_MAGIC = 793712314
_FASTTEXT_VERSIONS = (11, 12)
_FASTTEXT_CLASSIFIER = 3
_LINE_END = "</s>"  # end of a line: the only word without n-grams


@dataclass
class WordVectors:
    """Word vectors in the order of their file. width: number of dimensions.

    rows: each word and its vector (D,); a word may be repeated. Raises ModelError as it is read.
    subwords: n-grams of words that the file lacks; None if these words have no vector. buckets: the
    vectors of the n-gram buckets in blocks (N, D).
    counts: number of occurrences of each word in training; empty if the file does not contain it.
    """

    width: int
    rows: Iterable[tuple[str, Floats]]
    subwords: Subwords | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    buckets: Iterable[Floats] = ()


def read_text(path: Path, limit: int | None) -> WordVectors:
    """Read lines of a word and its numbers; a first line with both sizes is optional.

    limit: maximum number of words to read; None for all. Raises ModelError.
    """
    with path.open("rb") as file:
        first = file.readline().removeprefix(_BYTE_ORDER_MARK).split()
    has_header = len(first) == 2 and all(field.isdigit() for field in first)
    width = int(first[1]) if has_header else len(first) - 1
    if not 0 < width <= _MAX_WIDTH:
        raise ModelError(f"{path}: the first line has neither a word with numbers nor two sizes")
    count = int(first[0]) if has_header else None
    return WordVectors(width, _text_rows(path, width, limit, count))


def _text_rows(
    path: Path, width: int, limit: int | None, count: int | None
) -> Iterator[tuple[str, Floats]]:
    """count: number of words in the first line; None for a file without one."""
    first, number = 1 if count is None else 2, 0
    with path.open("rb") as file:
        file.seek(
            len(_BYTE_ORDER_MARK) if file.read(len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK else 0
        )
        for number, line in enumerate(islice(file, first - 1, None), 1):
            if limit is not None and number > limit:
                return
            if count is not None and number > count:
                raise ModelError(
                    f"{path}: line {number + 1} is one more than the {count} words of its first "
                    "line; correct the number there, or remove the line"
                )
            try:
                yield _text_row(line, width)
            except ValueError as error:
                raise ModelError(f"{path}: line {number + first - 1} {error}") from None
    if limit is None and count is not None and number < count:
        raise ModelError(f"{path} is truncated: it has {number} words, its first line says {count}")


def _text_row(line: bytes, width: int) -> tuple[str, Floats]:
    """Split a line into a word and `width` numbers; raises ValueError with what it has instead."""
    # A word may contain spaces, as in GloVe's largest file.
    word, *parts = line.rstrip(b" \r\n").rsplit(b" ", width)
    if len(parts) != width:
        raise ValueError(f"has {len(parts)} numbers, not {width}")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        raise ValueError("has values that are not numbers") from None
    if line.find(b"_", len(word)) >= 0:  # float() reads 1_0 as 10
        raise ValueError("has values that are not numbers")
    if not word:
        raise ValueError("has no word before its numbers")
    if word != word.strip(b" \t"):
        raise ValueError("has no single space after its word")
    if b" " in word and _NUMBER.fullmatch(word.rpartition(b" ")[2]):
        raise ValueError(f"has more than {width} numbers")
    with np.errstate(over="ignore"):
        vector = np.array(numbers).astype(np.float32)
    if not np.isfinite(vector).all():
        raise ValueError("has NaN or infinity")
    return word.decode(errors="replace"), vector


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
    if not 0 < width <= _MAX_WIDTH:
        raise ModelError(f"{path}: {width} dimensions are not possible")
    return WordVectors(width, _binary_rows(path, width, limit, count, len(header)))


def _binary_rows(
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
            if problem := _binary_problem(word, numbers):
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


def _binary_problem(word: bytes, numbers: bytes) -> str | None:
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


def is_fasttext(path: Path) -> bool:
    """Whether a file begins like a binary model of fastText."""
    with path.open("rb") as file:
        return file.read(4) == struct.pack("<i", _FASTTEXT_MAGIC)


def read_fasttext(path: Path, limit: int | None) -> WordVectors:
    """Read an unsupervised fastText model.

    The vector of a word is the mean of the word's row and its n-grams' rows. limit: maximum number
    of words to read; None for all.

    Raises ModelError for a classifier, for quantised vectors and for a truncated file.
    """
    try:
        with path.open("rb") as file:
            width, subwords = _read_fasttext_sizes(path, file)
            words = _read_fasttext_words(path, file)
            table = _map_fasttext_table(
                path, file, width, len(words) + (subwords.buckets if subwords else 0)
            )
            _check_fasttext_end(path, file)
    except (struct.error, ValueError) as error:  # ValueError: impossible sizes
        raise ModelError(f"{path} is truncated or damaged: {error}") from None
    first_bucket, words = len(words), words[:limit]
    buckets = blocks(table[first_bucket:]) if subwords else ()
    rows = _fasttext_rows([word for word, _ in words], subwords, table, first_bucket)
    return WordVectors(width, rows, subwords, dict(words), buckets)


def _read_fasttext_sizes(path: Path, file: BinaryIO) -> tuple[int, Subwords | None]:
    """Return the number of dimensions, and the n-grams that have vectors."""
    _, version = _unpack(file, "<ii")
    if version not in _FASTTEXT_VERSIONS:
        raise ModelError(f"{path}: fastText's version {version} is not supported")
    width, *others = _unpack(file, "<12i")
    model, buckets, shortest, longest = others[6:10]
    if model == _FASTTEXT_CLASSIFIER:
        raise ModelError(f"{path} is a fastText classifier, not a table of words")
    _unpack(file, "<d")
    return width, Subwords(shortest, longest, buckets) if longest > 0 and buckets > 0 else None


def _read_fasttext_words(path: Path, file: BinaryIO) -> list[tuple[str, int]]:
    """Return the words with their counts."""
    size, count, labels, _, pruned = _unpack(file, "<iiiqq")
    if labels or size != count or pruned > 0:
        raise ModelError(f"{path}: labels and pruned n-grams are not supported")
    words = [(_read_fasttext_word(file), _unpack(file, "<qb")[0]) for _ in range(size)]
    for number, (word, occurrences) in enumerate(words, 1):
        if not word:
            raise ModelError(f"{path} is damaged: word {number} is empty")
        if occurrences < 0:
            raise ModelError(f"{path} is damaged: word {word!r} has the count {occurrences}")
    return words


def _map_fasttext_table(path: Path, file: BinaryIO, width: int, least: int) -> Floats:
    """Map the table of words and n-grams, and skip it. least: minimum number of its rows."""
    if _unpack(file, "<?")[0]:
        raise ModelError(f"{path} is quantised; convert the original model")
    rows, columns = _unpack(file, "<qq")
    if columns != width or rows < least:
        raise ModelError(f"{path}: the table has {rows} rows, its words and n-grams need {least}")
    if path.stat().st_size < file.tell() + 4 * rows * width:
        raise ModelError(f"{path} is truncated inside its table")
    table: Floats = np.memmap(path, "<f4", "r", file.tell(), (rows, width))
    file.seek(4 * rows * width, os.SEEK_CUR)
    return table


def _check_fasttext_end(path: Path, file: BinaryIO) -> None:
    """Check that the matrix of the training's output follows, which ends the file."""
    _, rows, width = _unpack(file, "<?qq")
    excess = path.stat().st_size - file.tell() - 4 * rows * width
    if excess < 0:
        raise ModelError(f"{path} is truncated: {-excess} bytes are missing at its end")
    if excess:
        raise ModelError(f"{path} is damaged: it has {excess} bytes more than its tables")


def _fasttext_rows(
    words: Sequence[str], subwords: Subwords | None, table: Floats, first_bucket: int
) -> Iterator[tuple[str, Floats]]:
    for row, word in enumerate(words):
        of_ngrams = subwords.of(word) if subwords and word != _LINE_END else []
        rows = [row, *(first_bucket + bucket for bucket in of_ngrams)]
        yield word, table[rows].sum(axis=0) * np.float32(1.0 / len(rows))


def _unpack(file: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _read_fasttext_word(file: BinaryIO) -> str:
    characters = bytearray()
    while (character := file.read(1)) not in (b"\0", b""):
        characters += character
    return characters.decode(errors="replace")
