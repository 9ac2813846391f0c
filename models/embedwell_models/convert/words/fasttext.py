"""fastText's binary model, whose n-grams give unknown words a vector.

Bojanowski et al. 2016, arXiv 1607.04606.
"""

import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.words.subwords import Subwords
from embedwell_models.vectors import Floats

_MAGIC = 793712314
_VERSIONS = (11, 12)
_SUPERVISED = 3
_END = "</s>"  # end of a line: the only word without n-grams
_BLOCK = 1 << 14  # rows


def is_fasttext(path: Path) -> bool:
    """Whether a file begins like a binary model of fastText."""
    with path.open("rb") as file:
        return file.read(4) == struct.pack("<i", _MAGIC)


class FastText:
    """An unsupervised fastText model; for the attributes see WordVectors."""

    def __init__(self, path: Path, limit: int | None) -> None:
        """limit: maximum number of words to read; None for all.

        Raises ModelError for a classifier, for quantised vectors and for a truncated file.
        """
        self._path = path
        self._words: list[tuple[str, int]] = []  # with their counts
        try:
            with path.open("rb") as file:
                self._read(file)
        except (struct.error, ValueError) as error:  # ValueError: impossible sizes
            raise ModelError(f"{path} is truncated or damaged: {error}") from None
        self._words = self._words[:limit]
        self.counts: Mapping[str, int] = dict(self._words)

    def _read(self, file: BinaryIO) -> None:
        _, version = _unpack(file, "<ii")
        if version not in _VERSIONS:
            raise ModelError(f"{self._path}: fastText's version {version} is not supported")
        self.width, *others = _unpack(file, "<12i")
        model, buckets, shortest, longest = others[6:10]
        if model == _SUPERVISED:
            raise ModelError(f"{self._path} is a fastText classifier, not a table of words")
        _unpack(file, "<d")
        size, words, labels, _, pruned = _unpack(file, "<iiiqq")
        if labels or size != words or pruned > 0:
            raise ModelError(f"{self._path}: labels and pruned n-grams are not supported")
        self._words = [(_word(file), _unpack(file, "<qb")[0]) for _ in range(size)]
        self._check_words()
        if _unpack(file, "<?")[0]:
            raise ModelError(f"{self._path} is quantised; convert the original model")
        rows, width = _unpack(file, "<qq")
        self._first_bucket = words
        has_subwords = longest > 0 and buckets > 0
        self.subwords = Subwords(shortest, longest, buckets) if has_subwords else None
        if width != self.width or rows < words + buckets * has_subwords:
            raise ModelError(f"{self._path}: the table has {rows} rows for {words} words")
        if self._path.stat().st_size < file.tell() + 4 * rows * width:
            raise ModelError(f"{self._path} is truncated inside its table")
        self._table: Floats = np.memmap(self._path, "<f4", "r", file.tell(), (rows, width))
        file.seek(4 * rows * width, os.SEEK_CUR)
        self._check_end(file)

    def _check_words(self) -> None:
        for number, (word, count) in enumerate(self._words, 1):
            if not word:
                raise ModelError(f"{self._path} is damaged: word {number} is empty")
            if count < 0:
                raise ModelError(f"{self._path} is damaged: word {word!r} has the count {count}")

    def _check_end(self, file: BinaryIO) -> None:
        """Check that the matrix of the training's output follows, which ends the file."""
        _, rows, width = _unpack(file, "<?qq")
        excess = self._path.stat().st_size - file.tell() - 4 * rows * width
        if excess < 0:
            raise ModelError(f"{self._path} is truncated: {-excess} bytes are missing at its end")
        if excess:
            raise ModelError(f"{self._path} is damaged: it has {excess} bytes more than its tables")

    def rows(self) -> Iterator[tuple[str, Floats]]:
        """Yield each word and its vector: the mean of the word's row and its n-grams' rows."""
        for row, (word, _) in enumerate(self._words):
            of_ngrams = self.subwords.of(word) if self.subwords and word != _END else []
            rows = [row, *(self._first_bucket + bucket for bucket in of_ngrams)]
            yield word, self._table[rows].sum(axis=0) * np.float32(1.0 / len(rows))

    def buckets(self) -> Iterator[Floats]:
        """Yield the vectors of the n-gram buckets in blocks (N, D)."""
        if self.subwords:
            for start in range(self._first_bucket, len(self._table), _BLOCK):
                yield self._table[start : start + _BLOCK]


def _unpack(file: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _word(file: BinaryIO) -> str:
    characters = bytearray()
    while (character := file.read(1)) not in (b"\0", b""):
        characters += character
    return characters.decode(errors="replace")
