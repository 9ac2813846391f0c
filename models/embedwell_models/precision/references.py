"""Vectors of reference sentences and images, by which precisions are calibrated and compared."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.vector_modules import VectorHead
from embedwell_models.errors import ModelError
from embedwell_models.images.preprocessing import Pixels
from embedwell_models.precision.sentences import JUDGED_SENTENCES, ODD_TEXTS, SENTENCES
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.vectors import Floats, normalize

_IMAGE_COUNT = 4
_WAVES = 24  # of an image

Vectors = Callable[[Encoder, Batch], Floats]
"""Function that computes the unit vectors of sequences with an encoder: (B, dim)."""
EmbedImages = Callable[[Encoder, Sequence[Pixels]], Floats]
"""Function that computes the vectors of images with an encoder: (B or B * tokens, dim)."""


class ReferenceSentenceEmbedder:
    """Embedder of the reference texts with a model's tokenizer.

    The first use tokenizes them, without those that have token ids outside the token table. It
    raises ModelError if no sentence remains.
    """

    def __init__(
        self, tokenizer: Callable[[], Tokenizer], vocab_size: int, vectors: Vectors
    ) -> None:
        """tokenizer: returns the tokenizer, which a load without trials does not need."""
        self._tokenizer, self._vocab_size, self._vectors = tokenizer, vocab_size, vectors

    def __call__(self, encoder: Encoder) -> Floats:
        """Return the unit vectors that an encoder computes for the judged texts: (B, dim)."""
        return self._vectors(encoder, self._judged)

    def check(self) -> None:
        """Raise ModelError if no sentence has token ids of the table alone."""
        _ = self._rows

    def calibrate(self, encoder: Encoder) -> None:
        """Run ordinary sentences and an empty text through an encoder that observes its inputs.

        The other odd texts stay out: their outliers would take resolution away from ordinary texts.
        The judged texts are others, because int8 is nearest to float32 on those of the calibration.
        """
        self._vectors(encoder, self._observed)

    @cached_property
    def _observed(self) -> Batch:
        return Batch.of(self._rows + self._encode([""]))

    @cached_property
    def _judged(self) -> Batch:
        # Of a small table, only words of the sentences may be left.
        return Batch.of(self._encode((*JUDGED_SENTENCES, *ODD_TEXTS)) or self._rows)

    @cached_property
    def _rows(self) -> list[list[int]]:
        if rows := self._encode(SENTENCES):
            return rows
        raise ModelError(f"the tokenizer's ids do not fit a table of {self._vocab_size} vectors")

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        rows = [row.ids for row in self._tokenizer().encode(texts)]
        return [ids for ids in rows if ids and max(ids) < self._vocab_size]


def pooled_vectors_function(head: VectorHead, pooling: Sequence[str]) -> Vectors:
    """Return a function that computes the vectors of texts. head: modules after the pooling."""
    return lambda encoder, batch: normalize(head(encoder.vectors(batch, pooling)))


def token_vectors_function(head: VectorHead, num_layers: int) -> Vectors:
    """Return a function that concatenates the vectors of a text's tokens to one vector.

    The cosine of two such vectors is the mean of the cosines of their tokens.
    """

    def compute(encoder: Encoder, batch: Batch) -> Floats:
        rows = normalize(head(encoder.states(batch, num_layers)))
        shape = len(batch.lengths), int(batch.lengths.max()), rows.shape[1]
        vectors = np.zeros(shape, dtype=np.float32)
        vectors[np.arange(shape[1]) < batch.lengths[:, None]] = rows
        return normalize(vectors.reshape(len(vectors), -1))

    return compute


class ReferenceImageEmbedder:
    """Embedder of random waves whose power falls with their frequency, as in photographs."""

    def __init__(self, side: int, embed: EmbedImages) -> None:
        """side: pixels of a side."""
        self._images, self._embed = reference_images(side), embed

    def __call__(self, encoder: Encoder) -> Floats:
        """Return the unit vectors that an encoder computes for the images: (B, dim).

        Vectors of an image's tokens are concatenated to one: its cosine is their mean cosine.
        """
        vectors = normalize(self._embed(encoder, self._images))
        return normalize(vectors.reshape(len(self._images), -1))


def reference_images(side: int) -> list[Pixels]:
    """Draw images of (side, side, 3) pixels, which are the same in each call."""
    random = np.random.default_rng(0)
    x = np.linspace(0, 1, side)
    pictures = []
    for _ in range(_IMAGE_COUNT):
        frequencies = random.uniform(-16, 16, (2, 3, _WAVES, 1, 1))
        phases = random.uniform(0, 2 * np.pi, (3, _WAVES, 1, 1))
        angles = 2 * np.pi * (frequencies[0] * x[:, None] + frequencies[1] * x) + phases
        waves = (np.sin(angles) / np.hypot(*frequencies)).sum(axis=1)
        span = waves.min(), waves.max()
        values = np.interp(waves, span, (0, 255)).astype(np.uint8)
        pictures.append(np.ascontiguousarray(np.moveaxis(values, 0, -1)))
    return pictures
