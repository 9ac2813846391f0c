"""Embed the lines of a file into a file of vectors."""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO

import click
import numpy as np
import orjson

from models.embedder import Embedder
from models.errors import EmptyTextError
from models.outputs.names import DENSE, MULTI, SPARSE, SPARSE_QUERY
from models.vectors import Floats

_CHUNK = 1024  # texts embedded between two updates of the progress bar
_OTHER_KINDS = {
    SPARSE: "sparse vectors",
    SPARSE_QUERY: "sparse vectors of queries",
    MULTI: "vectors of tokens",
}


def read(source: BinaryIO) -> list[str]:
    """Read the lines of a file; raises ClickException if it is not UTF-8."""
    content = source.read()
    try:
        # Rows match the lines that `wc -l` counts: str.splitlines also splits at a form feed or
        # U+2028, and universal newlines at a lone carriage return.
        *lines, last = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise click.ClickException(
            f"{source.name} is not UTF-8 (line {line}): convert it first, with iconv, say"
        ) from None
    return [line.removesuffix("\r") for line in [*lines, *[last] * bool(last)]]


def embed(embedder: Embedder, texts: Sequence[str], prompt: str | None) -> Floats:
    """Vectors (B, dim), with a progress bar.

    Raises ClickException for a line without tokens, and for a model that does not embed.
    """
    if DENSE not in embedder.output_names:
        kinds = " and ".join(_OTHER_KINDS[name] for name in embedder.output_names)
        raise click.ClickException(
            f"the model has no dense vectors of texts, but {kinds or 'scores of labels'}: "
            "`embedding-service serve` offers these"
        )
    if not texts:
        return np.empty((0, embedder.dim), dtype=np.float32)
    return embed_chunks(texts, lambda chunk: embedder.embed(chunk, prompt=prompt))


def embed_chunks(texts: Sequence[str], embed_chunk: Callable[[Sequence[str]], Floats]) -> Floats:
    """Embed texts chunk by chunk, with a progress bar: -> (B, dim).

    Raises ClickException for an EmptyTextError.
    """
    arrays = []
    with click.progressbar(length=len(texts), label="embedding", file=sys.stderr) as bar:
        for chunk in _chunks(texts):
            try:
                arrays.append(embed_chunk(chunk))
            except EmptyTextError as error:
                line = bar.pos + error.index + 1
                raise click.ClickException(
                    f"line {line} has no tokens, and the model needs one: take it out"
                ) from None
            bar.update(len(chunk))
    return np.concatenate(arrays)


def write(file: BinaryIO, suffix: str, texts: Sequence[str], vectors: Floats) -> None:
    """Write one array for the suffix .npy, else a line of JSON for each text."""
    if suffix == ".npy":
        np.save(file, vectors)
        return
    for text, vector in zip(texts, vectors, strict=True):
        line = {"text": text, "embedding": vector}
        file.write(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def _chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk
