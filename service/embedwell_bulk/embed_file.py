"""Embed the lines of a file into a file of vectors, in constant memory."""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import click
import numpy as np
import orjson

from embedwell.line_ends import escape_line_ends
from embedwell_bulk.progress import EmbedProgress, WindowProgress
from embedwell_bulk.text_encoder import TextEncoder, embed_window
from embedwell_models.vectors import Floats

_WINDOW = 16384  # maximum lines in memory


def read(source: BinaryIO) -> Iterator[str]:
    """Yield the lines of a file; raises ClickException if one is not UTF-8."""
    # Rows match the lines that `wc -l` counts: str.splitlines also splits at a form feed or U+2028,
    # and universal newlines at a lone carriage return.
    for number, line in enumerate(source, start=1):
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            raise click.ClickException(
                f"{source.name} is not UTF-8 (line {number}); convert it first, for example "
                "with iconv"
            ) from None


def count_lines(source: BinaryIO) -> int | None:
    """Count the lines of a file, and check each line; None for a pipe. Raises ClickException."""
    if not source.seekable():
        return None
    lines = sum(1 for _ in read(source))
    source.seek(0)
    return lines


def embed_lines(
    encoder: TextEncoder,
    source: BinaryIO,
    lines: int | None,
    write: Callable[[list[str], Floats], Any],
) -> int:
    """Embed lines, and write them with their vectors (n, dim), a window at a time: their number.

    Raises BulkError, and ClickException for a line without a vector.

    lines: number of lines, if known.
    """
    progress, remaining, done = EmbedProgress(sys.stderr), read(source), 0
    progress.begin(0)
    while texts := list(islice(remaining, _WINDOW)):
        share, done = lines and done / lines, done + len(texts)
        window = WindowProgress(progress, len(texts), share, lines and done / lines)
        encoded = embed_window(encoder, texts, window.advance)
        for index, reason in sorted(encoded.rejected.items()):
            line = done - len(texts) + index + 1
            raise click.ClickException(f"line {line}: {reason}; take it out")
        write(texts, encoded.dense)
        window.end()
    progress.end()
    return done


class JsonlWriter:
    """Writes a line of JSON for each text."""

    def __init__(self, file: BinaryIO, dim: int) -> None:
        self._file = file

    def write(self, texts: Sequence[str], vectors: Floats) -> None:
        for text, vector in zip(texts, vectors, strict=True):
            line = {"text": text, "embedding": vector}
            content = orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY)
            self._file.write(escape_line_ends(content) + b"\n")

    def close(self) -> None:
        """Do nothing, as nothing is left to write."""


class NpyWriter:
    """Writes one array (B, dim), whose header is rewritten when B is known."""

    def __init__(self, file: BinaryIO, dim: int) -> None:
        self._file, self._dim, self._rows = file, dim, 0
        self._held: list[Floats] = []  # for a pipe, which cannot seek back to the header
        if file.seekable():
            self._write_header()

    def write(self, texts: Sequence[str], vectors: Floats) -> None:
        if not self._file.seekable():
            self._held.append(vectors)
            return
        self._file.write(np.ascontiguousarray(vectors, "<f4").data)
        self._rows += len(vectors)

    def close(self) -> None:
        """Write the values that depend on the number of rows."""
        if self._file.seekable():
            self._file.seek(0)
            self._write_header()
        else:
            np.save(self._file, np.concatenate([np.empty((0, self._dim), "<f4"), *self._held]))

    def _write_header(self) -> None:
        header = {"descr": "<f4", "fortran_order": False, "shape": (self._rows, self._dim)}
        np.lib.format.write_array_header_1_0(self._file, header)


WRITERS: dict[str, type[NpyWriter] | type[JsonlWriter]] = {".npy": NpyWriter, ".jsonl": JsonlWriter}
