"""Embed texts that are in memory, with a progress bar."""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import click
import numpy as np

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


def check_dense(embedder: Embedder) -> None:
    """Raise ClickException for a model without one vector for each text."""
    if DENSE not in embedder.output_names:
        kinds = " and ".join(_OTHER_KINDS[name] for name in embedder.output_names)
        raise click.ClickException(
            f"the model has no dense vectors of texts, but {kinds or 'scores of labels'}: "
            "`embedding-service serve` offers these"
        )


def embed(embedder: Embedder, texts: Sequence[str], prompt: str | None) -> Floats:
    """Vectors (B, dim), with a progress bar.

    Raises ClickException for a line without tokens, and for a model that does not embed.
    """
    check_dense(embedder)
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


def _chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk
