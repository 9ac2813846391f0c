"""Preprocessing of images to square tiles among texts, as Llama Nemotron VL's processor does it.

An image is stretched to a grid of tiles, which the encoder reads row by row, and then the whole
image once more, as one tile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from pathlib import Path

import numpy as np

from embedwell_models.config.json_config import IMAGE_FILES, JsonConfig
from embedwell_models.vectors import Floats, TokenIds
from embedwell_models.vision import Pixels
from embedwell_vision.images.decoding import check_pixels, decode
from embedwell_vision.images.patches import PatchPreprocessing, check_image_tokens
from embedwell_vision.images.preprocessing import Normalization
from embedwell_vision.specs import ImageSpec

QUERY_PREFIX, PASSAGE_PREFIX = "query:", "passage:"
PLACEHOLDER = "<IMG_CONTEXT>"
_BEFORE, _AFTER = "<img>", "</img> "
_NORMALIZATION = {  # means and standard deviations of the channels
    "siglip": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
_ENOUGH = 0.6  # of the area of an image: a grid of more pixels than these is no better
_MAX_TILES = 12  # as in Eagle 2; of more, the order of equally good grids is not the same
_READ = {
    *("image_size", "max_input_tiles", "num_image_token", "dynamic_image_size", "use_thumbnail"),
    *("norm_type", "query_prefix", "passage_prefix", "num_channels", "system_message"),
}
_IGNORED = {  # options of loading, padding and lengths; the template has no text of its own
    *("processor_class", "auto_map", "padding", "pad_to_multiple_of", "template"),
    *("q_max_length", "p_max_length", "chat_template", "image_processor"),
}


@dataclass(frozen=True, kw_only=True)
class TilePreprocessing:
    """Stretching to tiles, and normalisation of the pixel values.

    spec: of the encoder of tiles. most: greatest number of tiles of a grid. whole: whether the
    whole image follows two tiles or more. norm: kind of the normalisation. takes_prompt: whether a
    prompt precedes a text with images; the passage prefix does. single: see PatchPreprocessing.
    """

    spec: ImageSpec
    most: int
    whole: bool
    norm: str
    takes_prompt: bool = False
    single: bool = False

    @classmethod
    def read(cls, folder: Path, spec: ImageSpec) -> "TilePreprocessing | None":
        """Read the options of a folder; return None if it has no such file.

        Raises ModelError for an unknown option, and for an option that does not fit the encoder.
        """
        options = JsonConfig.optional(folder / IMAGE_FILES[0])
        if not options.path.exists():
            return None
        options.refuse_unknown(_READ | _IGNORED)
        for key, value in (
            *(("image_size", spec.image_size), ("num_image_token", spec.tokens)),
            *(("num_channels", 3), ("system_message", "")),
            *(("query_prefix", QUERY_PREFIX), ("passage_prefix", PASSAGE_PREFIX)),
        ):
            options.require(key, value)
        most = options.get("max_input_tiles", 6)
        if not 1 <= most <= _MAX_TILES:
            raise options.unsupported("max_input_tiles", most, f"1 to {_MAX_TILES}")
        return cls(
            spec=spec,
            most=most if options.get("dynamic_image_size", True) else 1,
            whole=options.get("use_thumbnail", True),
            norm=options.require("norm_type", *_NORMALIZATION),
        )

    def table(self) -> Floats:
        """Normalised value for each channel and byte: (3, 256).

        The processor rounds them to bfloat16, also for a model that computes in float32.
        """
        mantissas, exponents = np.frexp(Normalization(1 / 255, *_NORMALIZATION[self.norm]).table())
        rounded: Floats = np.ldexp(np.rint(mantissas * 256) / 256, exponents)  # ties to even
        return rounded

    def pixels(self, data: bytes, max_pixels: int) -> Pixels:
        """Decode an encoded image and cut it to tiles, one below the other: (N * side, side, 3).

        max_pixels: maximum for the image and for its resized copy. Raises ImageError.
        """
        image, side = decode(data, max_pixels), self.spec.image_size
        columns, rows = self.grid(image.width, image.height)
        check_pixels(columns * side, rows * side, max_pixels)
        resized = np.asarray(image.resize((columns * side, rows * side)))
        tiles = resized.reshape(rows, side, columns, side, 3).swapaxes(1, 2).reshape(-1, side, 3)
        if not self.whole or rows * columns == 1:
            return np.ascontiguousarray(tiles)
        return np.concatenate([tiles, np.asarray(image.resize((side, side)))])

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Return the columns and rows of an image's tiles.

        Of the grids of up to `most` tiles, the first of the best proportions and resolution, from
        the fewest tiles on. Because of rounding, two of as many tiles can be equally good; the
        first of them is then that of the processor, whose order is that of a set in CPython.
        """
        sides = range(1, self.most + 1)
        grids = {grid for grid in product(sides, sides) if grid[0] * grid[1] <= self.most}
        ratio, area, best, greatest = width / height, width * height, (1, 1), -inf
        for columns, rows in sorted(grids, key=lambda grid: grid[0] * grid[1]):
            resolution = columns * rows * self.spec.image_size**2 / area
            stretch = min(columns / rows / ratio, ratio / (columns / rows))
            if (fit := min(resolution, _ENOUGH) * stretch) > greatest:
                best, greatest = (columns, rows), fit
        return best

    def tiles(self, images: Sequence[Pixels]) -> list[Pixels]:
        """Separate the tiles of all images: (side, side, 3) each."""
        side = self.spec.image_size
        return [tile for image in images for tile in image.reshape(-1, side, side, 3)]

    def tokens(self, image: Pixels) -> int:
        """Return the number of tokens of an image."""
        return len(image) // self.spec.image_size * self.spec.tokens

    def text(self, parts: Sequence[str | Pixels]) -> str:
        """Return the text of an input of texts and images, in order, with a passage's prefix."""
        texts = [
            part if isinstance(part, str) else f"{_BEFORE}{PLACEHOLDER * self.tokens(part)}{_AFTER}"
            for part in parts
        ]
        has_image = any(not isinstance(part, str) for part in parts)
        return "".join([f"{PASSAGE_PREFIX} " * has_image, *texts])

    def check_tokens(self, ids: TokenIds, images: Sequence[Pixels]) -> None:
        """Raise ImageTokensError unless a text has the tokens of its images, image by image."""
        check_image_tokens(ids, self.spec.token_id, PLACEHOLDER, [*map(self.tokens, images)])


ImageTokens = PatchPreprocessing | TilePreprocessing
"""Preprocessing of images that are tokens of a text."""
