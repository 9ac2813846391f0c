"""One forward pass of the model; where it fails, its halves."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from models.vectors import Floats
from service.engine.protocol.messages import POOLED, Failure, Ids
from service.engine.worker.scheduler import Item

log = logging.getLogger(__name__)


class Model(Protocol):
    """What computes: see models.embedder."""

    def encode(
        self, ids: Sequence[Ids], *, normalized: bool | None = None, skips: Sequence[int] = ()
    ) -> Floats: ...
    def hidden(self, ids: Sequence[Ids], layer: int | str | None = None) -> list[Floats]: ...


@dataclass(frozen=True, slots=True)
class Text:
    """One text of one job. skip: how many of its tokens, the first ones, are not pooled.

    output, alone: of its job, see service.engine.protocol.messages.
    """

    item: Item[Any]
    ids: Ids
    skip: int
    output: str | int
    alone: bool


def forward(model: Model, texts: Sequence[Text]) -> list[Floats | Failure]:
    """The vectors of each text, all of one kind, or what is wrong with it.

    When a pass fails, its halves are tried alone: one bad text fails alone, and a batch that
    is too large for the device's memory succeeds in parts. A device that has failed itself
    computes nothing more for this process: that error ends it, and the server starts another.
    """
    try:
        found = zip(texts, _pass(model, texts), strict=True)
        return [_checked(vectors, text.item.index) for text, vectors in found]
    except torch.AcceleratorError:
        raise
    except Exception as error:
        full = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if len(texts) == 1:
            log.exception("a text of %d tokens cannot be encoded", len(texts[0].ids))
            what = "the memory of the device is too small for it" if full else "see the log"
            return [Failure(f"the model failed on this input: {what}", texts[0].item.index)]
        tokens, kind = sum(len(text.ids) for text in texts), type(error).__name__
        log.warning("%d texts of %d tokens, in halves after %s", len(texts), tokens, kind)
    # Not in the handler: the error would keep alive what the failed pass holds of the memory.
    if full:
        torch.cuda.empty_cache()  # what is free may lie in pieces of the wrong sizes
    half = len(texts) // 2
    return forward(model, texts[:half]) + forward(model, texts[half:])


def _pass(model: Model, texts: Sequence[Text]) -> Iterable[Floats]:
    rows, output = [text.ids for text in texts], texts[0].output
    if output != POOLED:
        return model.hidden(rows, output)
    return model.encode(rows, normalized=False, skips=[text.skip for text in texts])


def _checked(vectors: Floats, index: int) -> Floats | Failure:
    if np.isfinite(vectors).all():
        return vectors
    message = "the model gave a vector that is not finite; try another precision"
    return Failure(message, index, finite=False)
