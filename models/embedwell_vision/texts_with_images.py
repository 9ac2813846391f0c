"""Texts with images, whose tokens the text encoder of the same model reads.

T tokens, D hidden size.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import cast

import numpy as np
import numpy.typing as npt

from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Encoder, EncoderOfVectors, Inputs
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Rotary
from embedwell_models.vectors import Doubles, Floats
from embedwell_vision import image_weights
from embedwell_vision.image_tokens import ImageTokens, KernelImageTokenEncoder
from embedwell_vision.images.patches import Patches
from embedwell_vision.specs import ImageTokenSpec

ImageTokenEncoder = Callable[[Patches], ImageTokens]
"""Encoder of an image, whose vectors are tokens of a text."""


def load(  # noqa: PLR0913, PLR0917 - the parts of one model
    description: ModelDescription,
    inputs: Inputs,
    encoder: Encoder,
    device: Device,
    dtype: str,
    cpu_features: frozenset[str],
    on_torch: bool,
) -> "TextsWithImages":
    """Load the image encoder of a model whose images are tokens of a text.

    inputs, encoder: for texts. dtype: precision of the image encoder. on_torch: whether torch
    computes it. Raises ModelError for tensors that are missing.
    """
    spec = description.spec.image_tokens
    assert isinstance(spec, ImageTokenSpec)
    tensors = image_weights.load(description.encoder, spec)
    images: ImageTokenEncoder
    if on_torch:
        from embedwell_vision.torch_backend.image_tokens import load as load_on_torch

        images = load_on_torch(spec, tensors, device, dtype, cpu_features)
    else:
        images = KernelImageTokenEncoder(spec, tensors, dtype, cpu_features)
    return TextsWithImages(spec, images, inputs, cast("EncoderOfVectors", encoder))


class TextsWithImages:
    """Encoder of texts with images, one at a time, so that no vector depends on a batch."""

    def __init__(
        self,
        spec: ImageTokenSpec,
        images: ImageTokenEncoder,
        inputs: Inputs,
        encoder: EncoderOfVectors,
    ) -> None:
        """inputs, encoder: the text encoder's."""
        assert spec.sections or not spec.deepstack, "states are added at positions of images only"
        self._spec, self._images = spec, images
        self._inputs, self._encoder = inputs, encoder

    def vectors(self, batch: Batch, images: Sequence[Patches], poolings: Sequence[str]) -> Floats:
        """Pool the last hidden states of a text with images: (1, poolings * D).

        batch: of one text, with `spec.id` for each token of an image.
        """
        read, additions = self._read(batch, images)
        if self._spec.sections is None:
            return self._encoder.vectors(read, poolings)
        angles = self._angles(batch, images, self._spec.sections)
        return self._encoder.vectors_at(read, angles, additions, poolings)

    def states(self, batch: Batch, images: Sequence[Patches]) -> Floats:
        """Return the last hidden states of a text with images: (T, D). batch: see `vectors`."""
        read, additions = self._read(batch, images)
        if self._spec.sections is None:
            return self._encoder.states(read, self._inputs.config.num_layers)
        angles = self._angles(batch, images, self._spec.sections)
        return self._encoder.states_at(read, angles, additions)

    def _read(self, batch: Batch, images: Sequence[Patches]) -> tuple[Batch, Sequence[Floats]]:
        """Return the token vectors and the additions, see EncoderOfVectors."""
        is_image = batch.ids == self._spec.id
        vectors = self._inputs.part("token", batch).copy()
        computed = [self._images(image) for image in images]
        vectors[is_image] = np.concatenate([image.tokens for image in computed])
        additions = []
        for parts in zip(*(image.additions for image in computed), strict=True):
            additions.append(np.zeros_like(vectors))
            additions[-1][is_image] = np.concatenate(parts)
        return replace(batch, ids=np.arange(len(vectors)), token_vectors=vectors), additions

    def _angles(
        self, batch: Batch, images: Sequence[Patches], sections: tuple[int, int, int]
    ) -> Doubles:
        scheme, merge = self._inputs.config.attention.positions, self._spec.merge
        assert isinstance(scheme, Rotary)
        frequencies = tables.frequencies(scheme)
        grids = [(image.rows // merge, image.columns // merge) for image in images]
        axes = axis_of_pairs(sections, len(frequencies), self._spec.in_turns)
        positions = axis_positions(batch.ids == self._spec.id, grids)
        angles: Doubles = positions[axes].T * frequencies
        return np.ascontiguousarray(angles)


def axis_of_pairs(sections: Sequence[int], pairs: int, in_turns: bool) -> Integers:
    """Return the axis whose position rotates each pair of a head: (pairs,).

    0 is the time, 1 the row and 2 the column. sections, in_turns: see ImageTokenSpec.
    """
    if not in_turns:
        return np.repeat(np.arange(3), sections)
    axes = np.zeros(pairs, dtype=np.int64)
    for axis in (1, 2):
        axes[axis : 3 * sections[axis] : 3] = axis
    return axes


def axis_positions(is_image: npt.NDArray[np.bool_], grids: Sequence[tuple[int, int]]) -> Integers:
    """Return the time, row and column of each token: (3, T).

    Those of a token of text are equal. An image takes as many positions as its longer side.

    is_image: (T,) whether a token is one of an image; two images are never side by side. grids: of
    the images, in order.
    """
    parts, start, remaining = [], 0, iter(grids)
    for image, group in groupby(is_image.tolist()):
        if image:
            rows, columns = next(remaining)
            row, column = np.divmod(np.arange(rows * columns), columns)
            parts.append(start + np.stack([np.zeros_like(row), row, column]))
            start += max(rows, columns)
        else:
            count = len(list(group))
            parts.append(np.tile(np.arange(start, start + count), (3, 1)))
            start += count
    return np.concatenate(parts, axis=1)
