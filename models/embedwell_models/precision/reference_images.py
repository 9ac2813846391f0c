"""Reference images for the comparison of an image encoder's precisions."""

from collections.abc import Callable, Sequence

import numpy as np

from embedwell_models.encoder.encoder import Encoder
from embedwell_models.images.preprocessing import Pixels
from embedwell_models.vectors import Floats, normalize

_COUNT = 4
_WAVES = 24

EmbedImages = Callable[[Encoder, Sequence[Pixels]], Floats]
"""Function that computes the vectors of images with an encoder: (B or B * tokens, dim)."""


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
    for _ in range(_COUNT):
        frequencies = random.uniform(-16, 16, (2, 3, _WAVES, 1, 1))
        phases = random.uniform(0, 2 * np.pi, (3, _WAVES, 1, 1))
        angles = 2 * np.pi * (frequencies[0] * x[:, None] + frequencies[1] * x) + phases
        waves = (np.sin(angles) / np.hypot(*frequencies)).sum(axis=1)
        span = waves.min(), waves.max()
        values = np.interp(waves, span, (0, 255)).astype(np.uint8)
        pictures.append(np.ascontiguousarray(np.moveaxis(values, 0, -1)))
    return pictures
