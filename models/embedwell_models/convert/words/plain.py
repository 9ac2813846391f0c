"""Reading of word vectors in Word2Vec's two formats, GloVe's format and fastText's .vec."""

import mmap
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from embedwell_models.convert.words.source import PlainVectors
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_MAX_WIDTH = 1 << 16  # dimensions
_MAX_WORD = 1 << 16  # bytes of a word


def read_text(path: Path, limit: int | None) -> PlainVectors:
    """Read lines of a word and its numbers; a first line with both sizes is optional.

    limit: maximum number of words to read; None for all. Raises ModelError.
    """
    with path.open("rb") as file:
        first = file.readline().split()
    has_header = len(first) == 2 and all(field.isdigit() for field in first)
    width = int(first[1]) if has_header else len(first) - 1
    if not 0 < width <= _MAX_WIDTH:
        raise ModelError(f"{path}: the first line has neither a word with numbers nor two sizes")
    count = int(first[0]) if has_header else None
    return PlainVectors(width, _lines(path, width, limit, count))


def _lines(
    path: Path, width: int, limit: int | None, count: int | None
) -> Iterator[tuple[str, Floats]]:
    read = 0
    with path.open("rb") as file:
        lines = islice(file, int(count is not None), None)
        for number, line in enumerate(islice(lines, limit), 1 + (count is not None)):
            # A word may contain spaces, as in GloVe's largest file.
            word, *numbers = line.rstrip(b" \r\n").rsplit(b" ", width)
            try:
                vector = np.array([float(part) for part in numbers], dtype=np.float32)
            except ValueError:
                raise ModelError(f"{path}: line {number} has values that are not numbers") from None
            if len(vector) != width:
                raise ModelError(f"{path}: line {number} has {len(vector)} numbers, not {width}")
            yield word.decode(errors="replace"), vector
            read += 1
    if limit is None and count is not None and read < count:
        raise ModelError(f"{path} is truncated: it has {read} words, its first line says {count}")


def read_binary(path: Path, limit: int | None) -> PlainVectors:
    """Read Word2Vec's binary file; for the arguments see `read_text`."""
    with path.open("rb") as file:
        header = file.readline(64)
    sizes = header.split()
    if len(sizes) != 2 or not all(field.isdigit() for field in sizes):
        raise ModelError(f"{path} is not a binary file of Word2Vec or fastText")
    count, width = map(int, sizes)
    if not 0 < width <= _MAX_WIDTH:
        raise ModelError(f"{path}: {width} dimensions are not possible")
    count = count if limit is None else min(count, limit)
    return PlainVectors(width, _records(path, width, count, len(header)))


def _records(path: Path, width: int, count: int, place: int) -> Iterator[tuple[str, Floats]]:
    size = 4 * width
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for number in range(count):
            stop = data.find(b" ", place, place + _MAX_WORD)
            if stop < 0 or stop + 1 + size > len(data):
                raise ModelError(
                    f"{path} is truncated: it has {number} words, its first line says {count}"
                )
            word = data[place:stop].lstrip(b"\n").decode(errors="replace")
            place = stop + 1 + size
            yield word, np.frombuffer(data[stop + 1 : place], dtype="<f4")
