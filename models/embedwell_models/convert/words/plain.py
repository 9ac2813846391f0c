"""Reading of word vectors in text: Word2Vec's and GloVe's formats, and fastText's .vec."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from embedwell_models.convert.words.source import WordVectors
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

MAX_WIDTH = 1 << 16  # dimensions
_MARK = b"\xef\xbb\xbf"
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def read_text(path: Path, limit: int | None) -> WordVectors:
    """Read lines of a word and its numbers; a first line with both sizes is optional.

    limit: maximum number of words to read; None for all. Raises ModelError.
    """
    with path.open("rb") as file:
        first = file.readline().removeprefix(_MARK).split()
    has_header = len(first) == 2 and all(field.isdigit() for field in first)
    width = int(first[1]) if has_header else len(first) - 1
    if not 0 < width <= MAX_WIDTH:
        raise ModelError(f"{path}: the first line has neither a word with numbers nor two sizes")
    count = int(first[0]) if has_header else None
    return WordVectors(width, _rows(path, width, limit, count))


def _rows(
    path: Path, width: int, limit: int | None, count: int | None
) -> Iterator[tuple[str, Floats]]:
    """count: number of words in the first line; None for a file without one."""
    first, number = 1 if count is None else 2, 0
    with path.open("rb") as file:
        file.seek(len(_MARK) if file.read(len(_MARK)) == _MARK else 0)
        for number, line in enumerate(islice(file, first - 1, None), 1):
            if limit is not None and number > limit:
                return
            if count is not None and number > count:
                raise ModelError(
                    f"{path}: line {number + 1} is one more than the {count} words of its first "
                    "line; correct the number there, or remove the line"
                )
            try:
                yield _row(line, width)
            except ValueError as error:
                raise ModelError(f"{path}: line {number + first - 1} {error}") from None
    if limit is None and count is not None and number < count:
        raise ModelError(f"{path} is truncated: it has {number} words, its first line says {count}")


def _row(line: bytes, width: int) -> tuple[str, Floats]:
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
