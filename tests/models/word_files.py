"""Files of word vectors, of random numbers, as word2vec, GloVe and fastText write them."""

import gzip
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embedwell_models.vectors import Floats

WORDS = ["the", "king", "queen", "man", "woman", "Berlin", "straße", "日本", "U.S.", "x"]
WIDTH = 12


def vectors(rows: int = len(WORDS), width: int = WIDTH, seed: int = 0) -> Floats:
    """Random vectors."""
    return np.random.default_rng(seed).normal(0, 0.3, (rows, width)).astype(np.float32)


def write_text(
    path: Path, table: Floats, words: Sequence[str] = WORDS, header: bool = True
) -> Path:
    """Write a text file; with `header` as word2vec and fastText do, else as GloVe does."""
    lines = [f"{len(words)} {table.shape[1]}"] * header
    lines += [
        f"{word} {' '.join(map(repr, row))}"
        for word, row in zip(words, table.astype(float).tolist(), strict=True)
    ]
    content = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_binary(
    path: Path, table: Floats, words: Sequence[str] = WORDS, newline: bytes = b"\n"
) -> Path:
    """Write word2vec's binary file. newline: before each word but the first."""
    records = [
        word.encode() + b" " + row.astype("<f4").tobytes()
        for word, row in zip(words, table, strict=True)
    ]
    content = f"{len(words)} {table.shape[1]}\n".encode() + newline.join(records)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_fasttext(  # noqa: PLR0913 - by name
    path: Path,
    *,
    words: Sequence[str] = WORDS,
    width: int = WIDTH,
    buckets: int = 97,
    lengths: tuple[int, int] = (3, 6),
    kind: int = 2,
    version: int = 12,
    labels: int = 0,
    quantised: bool = False,
) -> Path:
    """Write fastText's binary model. kind: 1 cbow, 2 skip-gram, 3 a classifier."""
    table = vectors(len(words) + buckets, width, seed=3)
    options = [width, 5, 1, 1, 5, 1, 2, kind, buckets, *lengths, 100]
    entries = b"".join(
        word.encode() + b"\0" + struct.pack("<qb", 1000 - index, 0)
        for index, word in enumerate(words)
    )
    output = np.zeros((len(words), width), dtype="<f4")
    path.write_bytes(
        struct.pack("<ii12id", 793712314, version, *options, 1e-4)
        + struct.pack("<iiiqq", len(words), len(words) - labels, labels, 1000, -1)
        + entries
        + struct.pack("<?qq", quantised, *table.shape)
        + table.astype("<f4").tobytes()
        + struct.pack("<?qq", False, *output.shape)
        + output.tobytes()
    )
    return path
