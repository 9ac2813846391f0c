"""Pages that are read as one image of any size, as Qwen's processor prepares it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from embedwell_models.images.patches import PatchPreprocessing, Row
from embedwell_models.images.preprocessing import Pixels


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

    def check_tokens(self, ids: Row, images: Sequence[Pixels]) -> None:
        """Raise ImageTokensError unless a text has the tokens of a page's images."""
        ...


@dataclass(frozen=True)
class PatchPages:
    """Pages of one image each, which becomes patches; for the methods see Pages.

    patches: with the text around the image.
    """

    patches: PatchPreprocessing

    def images(self, data: bytes, max_pixels: int) -> list[Pixels]:
        return [self.patches.pixels(data, max_pixels)]

    def tokens(self, image: Pixels) -> int:
        return self.patches.tokens(image)

    def text(self, images: Sequence[Pixels]) -> str:
        return self.patches.text(images)

    def check_tokens(self, ids: Row, images: Sequence[Pixels]) -> None:
        self.patches.check_tokens(ids, images)
