"""Preprocessing of images of pages, of which each token has a vector: tiles, squares, patches."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embedwell_models.config.json_config import IMAGE_FILES, JsonConfig
from embedwell_models.errors import ImageTokensError
from embedwell_models.vectors import Floats, TokenIds
from embedwell_models.vision import Pixels
from embedwell_vision.images.decoding import check_pixels, decode
from embedwell_vision.images.preprocessing import (
    Normalization,
    Preprocessing,
    joint_options,
    resampling,
)
from embedwell_vision.specs import ImageSpec, PageFormat

if TYPE_CHECKING:  # imported when a model with images is loaded
    from PIL import Image

_AROUND_TILE = "<fake_token_around_image>"
_WHOLE_PAGE = "<global-img>"
_MAX_SIDE = 4096  # of a resized page in transformers
_IDEFICS3 = "Idefics3ImageProcessor"
_IDEFICS3_DEFAULTS: Mapping[str, Any] = {  # of the class in transformers
    "size": {"longest_edge": 4 * 364},
    "max_image_size": {"longest_edge": 364},
    "resample": 1,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
_IDEFICS3_READ = {
    *("image_processor_type", "do_resize", "do_convert_rgb", "do_image_splitting", "do_rescale"),
    *("rescale_factor", "do_normalize", *_IDEFICS3_DEFAULTS),
}
# Options that do not change the pixels: all tiles have the same size, so none is padded.
_IDEFICS3_IGNORED = {
    *("do_pad", "processor_class", "data_format", "device", "disable_grouping"),
    *("return_tensors", "input_data_format", "return_row_col_info", "_valid_processor_keys"),
}
_PROCESSOR_KEYS = {
    *("image_processor", "image_seq_len", "visual_prompt_prefix", "visual_prompt_suffix"),
    *("query_prefix", "passage_prefix", "q_max_length"),
    *("processor_class", "chat_template", "auto_map", "video_processor"),
    *("video_prompt_prefix", "video_prompt_suffix"),
    *("p_max_length", "reserve_tokens_for_images"),  # of texts next to a page
    "max_num_visual_tokens",  # the file of an image processor states its pixels
}


@dataclass(frozen=True, kw_only=True)
class TiledPages:
    """Pages of tiles, as Idefics3's processor prepares them; for the methods see Pages.

    A page is resized to whole tiles. The encoder reads these row by row, and then the whole page
    once more, as one tile.

    spec: of the encoder of tiles. longest: longer side to which a page is first resized. splits:
    whether the page is cut to tiles; otherwise it is one tile. resample: Pillow's filter.
    placeholder: text of a token. prompt: text around a page, with a placeholder for it.
    """

    spec: ImageSpec
    longest: int
    splits: bool
    resample: "Image.Resampling"
    normalization: Normalization
    placeholder: str
    prompt: str

    @classmethod
    def read(cls, folder: Path, spec: ImageSpec, page_format: PageFormat) -> "TiledPages | None":
        """Read the options of a folder; return None if it has no such file.

        Raises ModelError for an unknown option, and for an option that does not fit the encoder.
        """
        stated = _idefics3_options(folder)
        if stated is None:
            return None
        options = stated.with_defaults(_IDEFICS3_DEFAULTS)
        for key in ("do_resize", "do_convert_rgb"):
            options.require(key, True)
        if (side := _longest_edge(options, "max_image_size")) != spec.image_size:
            raise options.unsupported("max_image_size", side, spec.image_size)
        read_processor(folder).require("image_seq_len", spec.tokens)
        return cls(
            spec=spec,
            longest=_longest_edge(options, "size"),
            splits=options.get("do_image_splitting", True),
            resample=resampling(options),
            placeholder=page_format.placeholder,
            prompt=page_prompt(folder, page_format),
            normalization=Normalization.read(options),
        )

    def table(self) -> Floats:
        """Normalised value for each channel and byte: (3, 256)."""
        return self.normalization.table()

    def images(self, data: bytes, max_pixels: int) -> list[Pixels]:
        """Decode and resize a page: (rows * side, columns * side, 3), then (side, side, 3).

        A page of one tile has only the latter. max_pixels: maximum for the image and for its
        resized copies. Raises ImageError.
        """
        image, side = decode(data, max_pixels), self.spec.image_size
        for width, height in self._sizes(image.width, image.height):
            check_pixels(width, height, max_pixels)
            image = image.resize((width, height), self.resample)
        whole: Pixels = np.asarray(image.resize((side, side), self.resample))
        return [whole] if image.size == (side, side) else [np.asarray(image), whole]

    def _sizes(self, width: int, height: int) -> list[tuple[int, int]]:
        """Return the widths and heights to which a page is resized, one after another."""
        side = self.spec.image_size
        width, height = _bounded(*_scaled(width, height, self.longest))
        return [
            (width, height),
            _whole_tiles(width, height, side) if self.splits else (side, side),
        ]

    def tiles(self, images: Sequence[Pixels]) -> list[Pixels]:
        """Cut a resized page to its tiles: (side, side, 3) each."""
        side = self.spec.image_size
        return [
            image[top : top + side, left : left + side]
            for image in images
            for top in range(0, image.shape[0], side)
            for left in range(0, image.shape[1], side)
        ]

    def tokens(self, image: Pixels) -> int:
        """Return the number of tokens of the tiles of one of a page's images."""
        return int(image.size // (3 * self.spec.image_size**2)) * self.spec.tokens

    def text(self, images: Sequence[Pixels]) -> str:
        """Return the text of a page, with a placeholder for each token of its tiles."""
        tile, parts = self.placeholder * self.spec.tokens, list[str]()
        for image in images[:-1]:
            rows, columns = (length // self.spec.image_size for length in image.shape[:2])
            for row in range(1, rows + 1):
                places = [f"<row_{row}_col_{column}>" for column in range(1, columns + 1)]
                parts += [*(f"{_AROUND_TILE}{place}{tile}" for place in places), "\n"]
            parts.append("\n")
        parts.append(f"{_AROUND_TILE}{_WHOLE_PAGE}{tile}{_AROUND_TILE}")
        return self.prompt.replace(self.placeholder, "".join(parts))

    def check_tokens(self, ids: TokenIds, images: Sequence[Pixels]) -> None:
        """Raise ImageTokensError unless a text has the tokens of all tiles."""
        check_tokens(ids, self.spec.token_id, sum(map(self.tokens, images)))


@dataclass(frozen=True, kw_only=True)
class SquarePages:
    """Pages of one square each, as PaliGemma's processor prepares them; for the methods see Pages.

    spec: of the encoder. placeholder: text of a token. prompt: text around a page, with a
    placeholder for it.
    """

    spec: ImageSpec
    preprocessing: Preprocessing
    placeholder: str
    prompt: str

    @classmethod
    def read(cls, folder: Path, spec: ImageSpec, page_format: PageFormat) -> "SquarePages | None":
        """Read the options of a folder; return None if it has no such file.

        Raises ModelError for an unknown option, and for an option that does not fit the encoder.
        """
        preprocessing = Preprocessing.read(folder, spec)
        if preprocessing is None:
            return None
        return cls(
            spec=spec,
            preprocessing=preprocessing,
            placeholder=page_format.placeholder,
            prompt=page_prompt(folder, page_format),
        )

    def table(self) -> Floats:
        return self.preprocessing.table()

    def images(self, data: bytes, max_pixels: int) -> list[Pixels]:
        return [self.preprocessing.pixels(data, max_pixels)]

    def tiles(self, images: Sequence[Pixels]) -> list[Pixels]:
        return [*images]

    def tokens(self, image: Pixels) -> int:
        return self.spec.tokens

    def text(self, images: Sequence[Pixels]) -> str:
        return self.prompt.replace(self.placeholder, self.placeholder * self.spec.tokens)

    def check_tokens(self, ids: TokenIds, images: Sequence[Pixels]) -> None:
        check_tokens(ids, self.spec.token_id, self.spec.tokens)


def read_processor(folder: Path) -> JsonConfig:
    """Read the options of the processor of texts and pages; raises ModelError for an unknown one.

    A folder without the file has none.
    """
    options = JsonConfig.optional(folder / IMAGE_FILES[0])
    options.refuse_unknown(_PROCESSOR_KEYS)
    return options


def page_prompt(folder: Path, page_format: PageFormat) -> str:
    """Read the text of a page, with a placeholder for its image; raises ModelError without one."""
    processor, key = read_processor(folder), "visual_prompt_prefix"
    processor.require("passage_prefix", page_format.passage_prefix)
    before, after = page_format.around_page
    after = processor.get("visual_prompt_suffix", after)
    prompt: str = before + processor.get(key, page_format.page) + after
    if prompt.count(page_format.placeholder) != 1:
        raise processor.unsupported(key, prompt, f"one {page_format.placeholder}")
    return prompt


def check_tokens(ids: TokenIds, id: int, expected: int) -> None:
    """Raise ImageTokensError unless a page's text has the tokens of its image. id: of each."""
    present = int((np.asarray(ids) == id).sum())
    if present != expected:
        raise ImageTokensError(
            f"the page has {expected} tokens, of which {present} fit into the {len(ids)} that "
            "are read"
        )


def files(folder: Path) -> list[Path]:
    """List the options files of a folder."""
    return [file for name in IMAGE_FILES if (file := folder / name).exists()]


def _idefics3_options(folder: Path) -> JsonConfig | None:
    options = joint_options(folder, _IDEFICS3_READ | _IDEFICS3_IGNORED)
    if options is not None:
        options.require("image_processor_type", _IDEFICS3, f"{_IDEFICS3}Fast", f"{_IDEFICS3}Pil")
    return options


def _longest_edge(options: JsonConfig, key: str) -> int:
    value = options[key]
    edge = value.get("longest_edge") if isinstance(value, dict) and len(value) == 1 else None
    if type(edge) is not int or edge < 1:
        raise options.unsupported(key, value, "an object with longest_edge")
    return edge


# The next three round as transformers does, which divides by the ratio of the sides.


def _scaled(width: int, height: int, longest: int) -> tuple[int, int]:
    """Scale to a longer side; the shorter one becomes even."""
    ratio = width / height
    if width >= height:
        other = int(longest / ratio)
        return longest, max(other + other % 2, 1)
    other = int(longest * ratio)
    return max(other + other % 2, 1), longest


def _bounded(width: int, height: int) -> tuple[int, int]:
    ratio = width / height
    if width >= height and width > _MAX_SIDE:
        return _MAX_SIDE, max(int(_MAX_SIDE / ratio), 1)
    if height > width and height > _MAX_SIDE:
        return max(int(_MAX_SIDE * ratio), 1), _MAX_SIDE
    return width, height


def _whole_tiles(width: int, height: int, side: int) -> tuple[int, int]:
    ratio = width / height
    if width >= height:
        width = math.ceil(width / side) * side
        return width, math.ceil(int(width / ratio) / side) * side
    height = math.ceil(height / side) * side
    return math.ceil(int(height * ratio) / side) * side, height
