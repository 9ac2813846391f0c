"""Embed texts in memory, with a progress bar."""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import click
import numpy as np

from embedwell.bulk.errors import BulkError
from embedwell_models.errors import EmptyTextError, PromptTooLongError
from embedwell_models.vectors import Floats

if TYPE_CHECKING:  # loads torch, which the vectors of a server do not need
    from embedwell_models.embedder import Embedder

_CHUNK = 1024  # texts embedded between two updates of the progress bar


def embed(embedder: "Embedder", texts: Sequence[str], prompt: str | None) -> Floats:
    """Return the vectors (B, dim), with a progress bar.

    Raises ClickException for a line without tokens, and for a model that does not embed.
    """
    from embedwell.bulk.local_model import check_dense

    try:
        check_dense(embedder)
    except BulkError as error:
        raise click.ClickException(str(error)) from None
    if not texts:
        return np.empty((0, embedder.dim), dtype=np.float32)
    return embed_chunks(texts, lambda chunk: embedder.embed(chunk, prompt=prompt))


def embed_chunks(texts: Sequence[str], embed_chunk: Callable[[Sequence[str]], Floats]) -> Floats:
    """Embed texts chunk by chunk, and show a progress bar: -> (B, dim).

    Raises ClickException for an EmptyTextError or a PromptTooLongError.
    """
    arrays = []
    with click.progressbar(length=len(texts), label="embedding", file=sys.stderr) as bar:
        for chunk in _chunks(texts):
            try:
                arrays.append(embed_chunk(chunk))
            except EmptyTextError as error:
                line = bar.pos + error.index + 1
                raise click.ClickException(
                    f"line {line} has no tokens, but the model needs at least one; take it out"
                ) from None
            except PromptTooLongError as error:
                raise click.ClickException(f"{error}; shorten it") from None
            bar.update(len(chunk))
    return np.concatenate(arrays)


def _chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk
