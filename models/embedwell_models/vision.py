"""The door to images: what this package asks of `embedwell_vision`, whose parts it has by name.

A process imports that package for a model with images, and for the first image of another.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from embedwell_models.vectors import Floats, TokenIds

OPTIONS = "embedwell_vision.options:with_images"
"""Reader of a model's preprocessing of images."""
FILES = "embedwell_vision.options:files"
"""Function that lists the files of a model which decide the pixels of its images."""
PAGE_OPTIONS = "embedwell_vision.page_options:read"
"""Reader of the options of a model with a vector for each token of a page."""
READER = "embedwell_vision.reader:ImageReader"
"""Replaces the images among inputs with their pixels."""
ENCODERS = "embedwell_vision.image_encoders:load"
"""Loader of ImageEncoders."""
VECTORS = "embedwell_vision.image_vectors:ImageVectors"
"""Builds the ImageVectors of a loaded model."""
CALLS = "embedwell_vision.calls"
"""Calls of the library that embed images."""
LAYERS = "images."
"""Prefix of the layers of an image encoder among those that int8 was calibrated with."""

Pixels = npt.NDArray[np.uint8]
"""Pixels of an image, (height, width, 3)."""

MAX_PIXELS = 1 << 24
"""Default limit; decoding an image of this size takes a quarter of a gigabyte."""


class Preprocessing(Protocol):
    """Preparation of images that have vectors of their own."""

    def pixels(self, data: bytes, max_pixels: int) -> Pixels:
        """Decode and resize an encoded image.

        max_pixels: maximum for the image and for its resized copy. Raises ImageError.
        """
        ...


class ImageTokens(Preprocessing, Protocol):
    """Preparation of images that are tokens of a text.

    takes_prompt: whether a prompt precedes a text with images. single: whether an image is an input
    of its own, without texts.
    """

    @property
    def takes_prompt(self) -> bool: ...

    @property
    def single(self) -> bool: ...

    def tokens(self, image: Pixels, /) -> int:
        """Return the number of tokens of a prepared image."""
        ...

    def text(self, parts: Sequence[str | Pixels]) -> str:
        """Return the text of an input of texts and prepared images, in order."""
        ...

    def check_tokens(self, ids: TokenIds, images: Sequence[Pixels]) -> None:
        """Raise ImageTokensError unless a text has the tokens of its images, image by image."""
        ...


class Pages(Protocol):
    """Preparation of images of pages, whose tokens have a vector each."""

    def images(self, data: bytes, max_pixels: int) -> list[Pixels]:
        """Decode a page, and resize it to one or more images: (height, width, 3) each.

        max_pixels: maximum for the image and for its resized copies. Raises ImageError.
        """
        ...

    def tokens(self, image: Pixels) -> int:
        """Return the number of tokens of one of a page's images."""
        ...

    def text(self, images: Sequence[Pixels]) -> str:
        """Return the text of a page, with a placeholder for each token of its images."""
        ...

    def check_tokens(self, ids: TokenIds, images: Sequence[Pixels]) -> None:
        """Raise ImageTokensError unless a text has the tokens of a page's images."""
        ...


class ImageEncoders(Protocol):
    """The encoders of a model's images.

    dtype: the precision. magnitudes: what int8 was calibrated with, by names after LAYERS; none in
    another precision. why_torch: what torch computes; None if the kernels compute everything.
    """

    @property
    def dtype(self) -> str: ...

    @property
    def magnitudes(self) -> Mapping[str, Floats]: ...

    @property
    def why_torch(self) -> str | None: ...


class ImageVectors(Protocol):
    """Vectors of the images of a loaded model; for the methods see TokenIdEmbedder."""

    def encode_images(self, images: Sequence[Pixels]) -> Floats: ...

    def encode_page(self, ids: TokenIds, images: Sequence[Pixels]) -> Floats: ...

    def encode_with_images(self, ids: TokenIds, images: Sequence[Pixels]) -> Floats: ...

    def warm(self) -> None: ...
