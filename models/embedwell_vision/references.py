"""Vectors of reference images, by which precisions are calibrated and compared."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from embedwell_models.encoder.encoder import Encoder
from embedwell_models.vectors import Floats, normalize
from embedwell_models.vision import Pixels

_IMAGE_COUNT = 4
_WAVES = 24  # of an image

EmbedImages = Callable[[Encoder, Sequence[Pixels]], Floats]
"""Function that computes the vectors of images with an encoder: (B or B * tokens, dim)."""


class ReferenceImageEmbedder:
    """Embedder of images that are drawn: like photographs, and odd ones."""

    def __init__(self, side: int, embed: EmbedImages) -> None:
        """side: pixels of a side."""
        self._side, self._embed = side, embed

    def __call__(self, encoder: Encoder) -> Floats:
        """Return the unit vectors that an encoder computes for the judged images: (B, dim).

        Vectors of an image's tokens are concatenated to one: its cosine is their mean cosine.
        """
        vectors = normalize(self._embed(encoder, self._judged))
        return normalize(vectors.reshape(len(self._judged), -1))

    def calibrate(self, encoder: Encoder) -> None:
        """Run images through an encoder that observes its inputs; the judged images are others."""
        self._embed(encoder, _photographs(self._side, seed=1))

    @cached_property
    def _judged(self) -> list[Pixels]:
        return [*_photographs(self._side, seed=0), *_odd_images(self._side)]


def _photographs(side: int, seed: int) -> list[Pixels]:
    """Draw random waves whose power falls with their frequency: images (side, side, 3)."""
    random = np.random.default_rng(seed)
    turns = 2j * np.pi * np.linspace(0, 1, side)
    pictures = []
    for _ in range(_IMAGE_COUNT):
        rows, columns = random.uniform(-16, 16, (2, 3, _WAVES))
        phases = random.uniform(0, 2 * np.pi, (3, _WAVES, 1))
        weighted = (
            np.exp(rows[..., None] * turns + 1j * phases) / np.hypot(rows, columns)[..., None]
        )
        waves = (np.swapaxes(weighted, 1, 2) @ np.exp(columns[..., None] * turns)).imag
        values = np.interp(waves, (waves.min(), waves.max()), (0, 255)).astype(np.uint8)
        pictures.append(np.ascontiguousarray(np.moveaxis(values, 0, -1)))
    return pictures


def _odd_images(side: int) -> list[Pixels]:
    """Draw a black image, lines on white as on a page, and noise: (side, side, 3) each."""
    black = np.zeros((side, side, 3), np.uint8)
    page = np.full_like(black, 255)
    page[side // 16 :: 8, side // 8 : -side // 8] = 0
    noise = np.random.default_rng(2).integers(0, 256, black.shape, dtype=np.uint8)
    return [black, page, noise]
