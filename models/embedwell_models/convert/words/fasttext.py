"""fastText's binary model, whose n-grams give unknown words a vector.

Bojanowski et al. 2016, arXiv 1607.04606.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from embedwell_models.convert.words.source import WordVectors
from embedwell_models.errors import ModelError
from embedwell_models.tables.table import blocks
from embedwell_models.tokenizer.word_vocabulary import Subwords
from embedwell_models.vectors import Floats

_MAGIC = 793712314
_VERSIONS = (11, 12)
_SUPERVISED = 3
_END = "</s>"  # end of a line: the only word without n-grams


def is_fasttext(path: Path) -> bool:
    """Whether a file begins like a binary model of fastText."""
    with path.open("rb") as file:
        return file.read(4) == struct.pack("<i", _MAGIC)


def read_fasttext(path: Path, limit: int | None) -> WordVectors:
    """Read an unsupervised fastText model.

    The vector of a word is the mean of the word's row and its n-grams' rows. limit: maximum number
    of words to read; None for all.

    Raises ModelError for a classifier, for quantised vectors and for a truncated file.
    """
    try:
        with path.open("rb") as file:
            width, subwords = _read_sizes(path, file)
            words = _read_words(path, file)
            table = _map_table(
                path, file, width, len(words) + (subwords.buckets if subwords else 0)
            )
            _check_end(path, file)
    except (struct.error, ValueError) as error:  # ValueError: impossible sizes
        raise ModelError(f"{path} is truncated or damaged: {error}") from None
    first_bucket, words = len(words), words[:limit]
    buckets = blocks(table[first_bucket:]) if subwords else ()
    rows = _rows([word for word, _ in words], subwords, table, first_bucket)
    return WordVectors(width, rows, subwords, dict(words), buckets)


def _read_sizes(path: Path, file: BinaryIO) -> tuple[int, Subwords | None]:
    """Return the number of dimensions, and the n-grams that have vectors."""
    _, version = _unpack(file, "<ii")
    if version not in _VERSIONS:
        raise ModelError(f"{path}: fastText's version {version} is not supported")
    width, *others = _unpack(file, "<12i")
    model, buckets, shortest, longest = others[6:10]
    if model == _SUPERVISED:
        raise ModelError(f"{path} is a fastText classifier, not a table of words")
    _unpack(file, "<d")
    return width, Subwords(shortest, longest, buckets) if longest > 0 and buckets > 0 else None


def _read_words(path: Path, file: BinaryIO) -> list[tuple[str, int]]:
    """Return the words with their counts."""
    size, count, labels, _, pruned = _unpack(file, "<iiiqq")
    if labels or size != count or pruned > 0:
        raise ModelError(f"{path}: labels and pruned n-grams are not supported")
    words = [(_word(file), _unpack(file, "<qb")[0]) for _ in range(size)]
    for number, (word, occurrences) in enumerate(words, 1):
        if not word:
            raise ModelError(f"{path} is damaged: word {number} is empty")
        if occurrences < 0:
            raise ModelError(f"{path} is damaged: word {word!r} has the count {occurrences}")
    return words


def _map_table(path: Path, file: BinaryIO, width: int, least: int) -> Floats:
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


def _check_end(path: Path, file: BinaryIO) -> None:
    """Check that the matrix of the training's output follows, which ends the file."""
    _, rows, width = _unpack(file, "<?qq")
    excess = path.stat().st_size - file.tell() - 4 * rows * width
    if excess < 0:
        raise ModelError(f"{path} is truncated: {-excess} bytes are missing at its end")
    if excess:
        raise ModelError(f"{path} is damaged: it has {excess} bytes more than its tables")


def _rows(
    words: Sequence[str], subwords: Subwords | None, table: Floats, first_bucket: int
) -> Iterator[tuple[str, Floats]]:
    for row, word in enumerate(words):
        of_ngrams = subwords.of(word) if subwords and word != _END else []
        rows = [row, *(first_bucket + bucket for bucket in of_ngrams)]
        yield word, table[rows].sum(axis=0) * np.float32(1.0 / len(rows))


def _unpack(file: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _word(file: BinaryIO) -> str:
    characters = bytearray()
    while (character := file.read(1)) not in (b"\0", b""):
        characters += character
    return characters.decode(errors="replace")
