"""Compute one forward pass of the model, and retry it in halves if it fails."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from embedwell.engine.wire.messages import (
    CONTENT,
    IMAGE,
    TokenIds,
    is_hidden_state,
    unpack_content,
    unpack_pixels,
)
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.encoder.device import release_gpu_cache
from embedwell_models.encoder.device_errors import is_device_lost, is_out_of_memory
from embedwell_models.outputs.names import DENSE
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.vectors import Floats
from embedwell_models.vision import Pixels

log = logging.getLogger(__name__)

_NO_ROWS: Floats = np.empty((0, 0), dtype=np.float32)


class ForwardModel(Protocol):
    """The parts of a TokenIdEmbedder that compute vectors."""

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
    def encode_with_images(self, ids: TokenIds, images: Sequence[Pixels]) -> Floats: ...
    def encode_page(self, ids: TokenIds, images: Sequence[Pixels]) -> Floats: ...


@dataclass(frozen=True, slots=True)
class TextFailure:
    """Why a text has no vector; see embedwell.engine.wire.messages.Failure."""

    message: str
    finite: bool = True


_NOT_FINITE = TextFailure(
    "the model computed a vector with NaN or infinity; set EMBEDWELL_DTYPE to another precision",
    finite=False,
)


@dataclass(frozen=True, slots=True)
class BatchTexts:
    """Texts, or images, of one forward pass.

    output: see embedwell.engine.wire.messages.
    prompt_token_counts: leading tokens of each text that are not pooled; () for none.
    image_tokens: tokens of each image, text with images or page; 0 for texts.
    """

    output: str | int
    rows: FlatRows
    prompt_token_counts: Sequence[int] = ()
    image_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Total tokens."""
        return self.image_tokens * len(self.rows) or len(self.rows.ids)

    def part(self, start: int, stop: int) -> "BatchTexts":
        """Return consecutive texts."""
        counts = self.prompt_token_counts[start:stop]
        return BatchTexts(self.output, self.rows.part(start, stop), counts, self.image_tokens)


@dataclass(slots=True)
class BatchVectors:
    """Vectors of texts.

    rows: (R, D), of all texts.
    row_counts: rows of each text; () if each has one.
    failures: by the positions of the texts that have no vector; None for none.
    """

    rows: Floats
    row_counts: Sequence[int] = ()
    failures: Mapping[int, TextFailure] | None = None

    @classmethod
    def of_each(cls, texts: Sequence[Floats]) -> "BatchVectors":
        """Concatenate the rows (R, D) of each text."""
        return cls(np.concatenate(texts), [*map(len, texts)])

    @classmethod
    def join(cls, parts: Sequence["BatchVectors"]) -> "BatchVectors":
        """Concatenate the vectors of consecutive texts."""
        rows = [part.rows for part in parts if len(part.rows)]  # without any, D is unknown
        counts, failures = list[int](), dict[int, TextFailure]()
        for part in parts:
            failures |= {len(counts) + at: why for at, why in (part.failures or {}).items()}
            counts += part.row_counts or [1] * len(part.rows)
        return cls(np.concatenate(rows) if rows else parts[0].rows, counts, failures)

    def split(self, counts: Iterable[int]) -> Iterator["BatchVectors"]:
        """Yield the vectors of each group of consecutive texts. counts: texts of each group."""
        text = row = 0
        for count in counts:
            row_counts = self.row_counts[text : text + count]
            end = row + (sum(row_counts) if self.row_counts else count)
            failures = self.failures and {
                at - text: why for at, why in self.failures.items() if text <= at < text + count
            }
            yield BatchVectors(self.rows[row:end], row_counts, failures)
            text, row = text + count, end


def forward(model: ForwardModel, texts: BatchTexts) -> BatchVectors:
    """Compute the vectors of texts, or their failures.

    If a pass fails, its halves are retried separately, so that one bad text fails alone, and a
    batch that is too large for the device's memory succeeds in parts. Raises an error after which
    the device is unusable in this process: the engine exits, and the server starts another.
    """
    try:
        return _checked(_encode(model, texts))
    except Exception as error:
        if is_device_lost(error):
            raise
        out_of_memory, count = is_out_of_memory(error), len(texts.rows)
        if count == 1:
            log.exception("a text of %d tokens cannot be encoded", texts.tokens)
            reason = (
                "the device has too little memory for it"
                if out_of_memory
                else "see the server's log"
            )
            failure = TextFailure(f"the model failed on this input: {reason}")
            return BatchVectors(_NO_ROWS, [0], {0: failure})
        kind = type(error).__name__
        log.warning("computing %d texts of %d tokens in halves after %s", count, texts.tokens, kind)
    # Not inside the handler, because the error's traceback keeps the memory of the failed pass.
    if out_of_memory:
        release_gpu_cache()  # free memory may be fragmented
    half = count // 2
    halves = texts.part(0, half), texts.part(half, count)
    return BatchVectors.join([forward(model, part) for part in halves])


def _encode(model: ForwardModel, texts: BatchTexts) -> BatchVectors:
    rows, output, counts = texts.rows, texts.output, texts.prompt_token_counts
    if output == DENSE:
        vectors = model.encode(rows, normalized=False, prompt_token_counts=counts)
        return BatchVectors(np.ascontiguousarray(vectors))
    if output == IMAGE:
        images = [unpack_pixels(row) for row in rows]
        return BatchVectors(np.ascontiguousarray(model.encode_images(images)))
    if output == CONTENT:
        contents = map(unpack_content, rows)
        return BatchVectors(np.concatenate([model.encode_with_images(*each) for each in contents]))
    if texts.image_tokens:
        pages = [model.encode_page(*unpack_content(row)) for row in rows]
        return BatchVectors.of_each([TextOutputs(multi=page).pack() for page in pages])
    if isinstance(output, int) or is_hidden_state(output):
        return BatchVectors.of_each(model.hidden(rows, output))
    outputs = model.outputs(rows, output.split("+"), prompt_token_counts=counts)
    return BatchVectors.of_each([text.pack() for text in outputs])


def _checked(vectors: BatchVectors) -> BatchVectors:
    """Return vectors with a failure for each text whose vectors are not all finite."""
    finite = np.isfinite(vectors.rows)
    if finite.all():
        return vectors
    counts = vectors.row_counts or [1] * len(vectors.rows)
    bad = np.repeat(np.arange(len(counts)), counts)[~finite.all(axis=1)]
    return BatchVectors(vectors.rows, counts, dict.fromkeys(bad.tolist(), _NOT_FINITE))
