"""Compute one forward pass of the model, and retry it in halves if it fails."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from embedwell.engine.wire.messages import (
    IMAGE,
    Failure,
    TokenIds,
    is_hidden_state,
    unpack_pixels,
)
from embedwell.engine.worker.scheduler import QueuedText
from embedwell_models.encoder.device import (
    free_cached_memory,
    is_device_lost,
    is_out_of_memory,
)
from embedwell_models.images.preprocessing import Pixels
from embedwell_models.outputs.names import DENSE
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.vectors import Floats

log = logging.getLogger(__name__)


class ForwardModel(Protocol):
    """The parts of embedwell_models.embedder.Embedder that compute vectors."""

    def encode(
        self,
        ids: Sequence[TokenIds],
        *,
        normalized: bool | None = None,
        prompt_token_counts: Sequence[int] = (),
    ) -> Floats: ...
    def hidden(self, ids: Sequence[TokenIds], layer: int | str | None = None) -> list[Floats]: ...
    def outputs(
        self,
        ids: Sequence[TokenIds],
        names: Sequence[str],
        *,
        prompt_token_counts: Sequence[int] = (),
    ) -> list[TextOutputs]: ...
    def encode_images(self, images: Sequence[Pixels]) -> Floats: ...


@dataclass(frozen=True, slots=True)
class BatchText:
    """One text of one job.

    prompt_token_count: leading tokens that are not pooled.
    output, exclusive: those of its job, see embedwell.engine.wire.messages.
    """

    item: QueuedText[Any]
    ids: TokenIds
    prompt_token_count: int
    output: str | int
    exclusive: bool


def forward(model: ForwardModel, texts: Sequence[BatchText]) -> list[Floats | Failure]:
    """Compute the vectors of each text, or its failure; all texts are of one kind.

    If a pass fails, its halves are retried separately, so that one bad text fails alone, and a
    batch that is too large for the device's memory succeeds in parts. Raises
    an error after which the device is unusable in this process: the engine exits, and the server
    starts another.
    """
    try:
        results = zip(texts, _encode(model, texts), strict=True)
        return [_check_finite(vectors, text.item.index) for text, vectors in results]
    except Exception as error:
        if is_device_lost(error):
            raise
        out_of_memory = is_out_of_memory(error)
        if len(texts) == 1:
            log.exception("a text of %d tokens cannot be encoded", texts[0].item.length)
            reason = (
                "the device has too little memory for it"
                if out_of_memory
                else "see the server's log"
            )
            return [Failure(f"the model failed on this input: {reason}", texts[0].item.index)]
        tokens, kind = sum(text.item.length for text in texts), type(error).__name__
        log.warning("computing %d texts of %d tokens in halves after %s", len(texts), tokens, kind)
    # Not inside the handler, because the error's traceback keeps the memory of the failed pass.
    if out_of_memory:
        free_cached_memory()  # free memory may be fragmented
    half = len(texts) // 2
    return forward(model, texts[:half]) + forward(model, texts[half:])


def _encode(model: ForwardModel, texts: Sequence[BatchText]) -> Iterable[Floats]:
    rows, output = [text.ids for text in texts], texts[0].output
    counts = [text.prompt_token_count for text in texts]
    if output == DENSE:
        return model.encode(rows, normalized=False, prompt_token_counts=counts)
    if output == IMAGE:
        return model.encode_images([unpack_pixels(row) for row in rows])
    if isinstance(output, int) or is_hidden_state(output):
        return model.hidden(rows, output)
    outputs = model.outputs(rows, output.split("+"), prompt_token_counts=counts)
    return [text_outputs.pack() for text_outputs in outputs]


def _check_finite(vectors: Floats, index: int) -> Floats | Failure:
    if np.isfinite(vectors).all():
        return vectors
    message = (
        "the model computed a vector with NaN or infinity; set EMBEDWELL_DTYPE to another precision"
    )
    return Failure(message, index, finite=False)
