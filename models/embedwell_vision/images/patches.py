"""Preprocessing of images of any size to patches, as Qwen's processor does it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ImageError, ImageTokensError
from embedwell_models.vectors import Floats, TokenIds
from embedwell_models.vision import Pixels
from embedwell_vision.images.decoding import check_pixels, decode
from embedwell_vision.images.preprocessing import (
    Normalization,
    joint_options,
    normalised_patches,
    resampling,
)
from embedwell_vision.specs import ImageTokenSpec

if TYPE_CHECKING:  # imported when a model with images is loaded
    from PIL import Image

_MAX_RATIO = 200  # of the sides of an image
_CLASSES = ("Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast", "Qwen2VLImageProcessorPil")
_CLASS_KEYS = ("image_processor_type", "feature_extractor_type")
_DEFAULTS: Mapping[str, Any] = {  # of the class in transformers
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
}
_SIZE = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}
_OLDER = ("min_pixels", "max_pixels")
_READ = {
    *("do_resize", "size", "min_pixels", "max_pixels", "resample", "do_convert_rgb"),
    *("do_rescale", "rescale_factor", "do_normalize", *_DEFAULTS, *_CLASS_KEYS),
}
# Options of the Python classes that do not change the pixels of a single image.
_IGNORED = {
    *("processor_class", "use_fast", "data_format", "device", "default_to_square"),
    *("_valid_processor_keys", "disable_grouping", "return_tensors", "input_data_format"),
    *("do_center_crop", "crop_size", "do_pad", "pad_size"),
}


@dataclass(frozen=True)
class Patches:
    """An image as N = rows * columns patches, those of a block of merged patches side by side.

    values: (N, channels * frames * patch side * patch side).
    """

    values: Floats
    rows: int
    columns: int


@dataclass(frozen=True, kw_only=True)
class PatchPreprocessing:
    """Resizing to whole blocks of patches, and normalisation of the pixel values.

    spec: of the encoder; an image has the same in each frame of a patch. min_pixels, max_pixels:
    bounds of the resized image. resample: Pillow's filter. around: text before and after the tokens
    of an image. earlier: bounds of a resizing before the other one; None if there is none.
    takes_prompt: whether a prompt precedes a text with images. single: whether an image is an input
    of its own, without texts.
    """

    spec: ImageTokenSpec

    min_pixels: int
    max_pixels: int
    resample: "Image.Resampling"
    normalization: Normalization
    around: tuple[str, str]
    earlier: tuple[int, int] | None = None
    takes_prompt: bool = True
    single: bool = False

    @classmethod
    def read(
        cls,
        folder: Path,
        spec: ImageTokenSpec,
        around: tuple[str, str],
        bounds: tuple[int | None, int | None],
        earlier: tuple[int, int] | None = None,
    ) -> "PatchPreprocessing | None":
        """Read the options of a folder; return None if it has no such file.

        bounds: least and most pixels, in place of the file's bounds. Raises ModelError for an
        unknown option, and for an option that does not fit the encoder.
        """
        stated = _options(folder)
        if stated is None:
            return None
        options = stated.with_defaults(_DEFAULTS)
        for key in ("do_resize", "do_convert_rgb"):
            options.require(key, True)
        for key, expected in (
            ("patch_size", spec.patch_size),
            ("merge_size", spec.merge),
            ("temporal_patch_size", spec.frames),
        ):
            if options[key] != expected:
                raise options.unsupported(key, options[key], expected)
        least, most = (
            of_file if bound is None else bound
            for of_file, bound in zip(_bounds(options), bounds, strict=True)
        )
        return cls(
            spec=spec,
            min_pixels=least,
            max_pixels=most,
            resample=resampling(options),
            around=around,
            earlier=earlier,
            normalization=Normalization.read(options),
        )

    @property
    def side(self) -> int:
        """Pixels of the side of a block of patches."""
        return self.spec.patch_size * self.spec.merge

    def pixels(self, data: bytes, max_pixels: int) -> Pixels:
        """Decode and resize an encoded image: (height, width, 3).

        max_pixels: maximum for the image and for its resized copy. Raises ImageError.
        """
        image = decode(data, max_pixels)
        if self.earlier:
            _check_strip(image.width, image.height)
            sizes = _resized(image.size, self.side, self.earlier, least=1)
            longest = _MAX_RATIO * min(sizes)
            image = image.resize((min(sizes[0], longest), min(sizes[1], longest)))
        width, height = self.resized(image.width, image.height)
        check_pixels(width, height, max_pixels)
        return np.asarray(image.resize((width, height), self.resample))

    def images(self, data: bytes, max_pixels: int) -> list[Pixels]:
        """Return the only image of a page, see Pages."""
        return [self.pixels(data, max_pixels)]

    def resized(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height of the resized image; raises ImageError for a strip."""
        _check_strip(width, height)
        bounds = self.min_pixels, self.max_pixels
        return _resized((width, height), self.side, bounds, least=0)

    def tokens(self, pixels: Pixels) -> int:
        """Return the number of tokens of a resized image."""
        height, width, _ = pixels.shape
        return int(height * width // self.side**2)

    def text(self, parts: Sequence[str | Pixels]) -> str:
        """Return the text of an input of texts and resized images, in order."""
        before, after = self.around
        return "".join(
            part
            if isinstance(part, str)
            else f"{before}{self.spec.placeholder * self.tokens(part)}{after}"
            for part in parts
        )

    def check_tokens(self, ids: TokenIds, images: Sequence[Pixels]) -> None:
        """Raise ImageTokensError unless a text has the tokens of its images, image by image."""
        check_image_tokens(ids, self.spec.id, self.spec.placeholder, [*map(self.tokens, images)])

    def pooled_tokens(self, ids: TokenIds) -> tuple[int, int]:
        """Return the index of the first token that is pooled, and that after the last.

        Raises ImageTokensError for an image whose last token is cut off.
        """
        if self.spec.pooled is None:
            return 0, len(ids)
        first, last = (np.flatnonzero(np.asarray(ids) == id).tolist() for id in self.spec.pooled)
        if not (first and last):
            raise ImageTokensError(
                f"the image does not fit into the {len(ids)} tokens that are read"
            )
        return first[0], last[-1] + 1

    def cut(self, pixels: Pixels) -> Patches:
        """Normalise a resized image and cut it to patches."""
        merge, patch = self.spec.merge, self.spec.patch_size
        rows, columns = (length // patch for length in pixels.shape[:2])
        blocks = pixels.reshape(
            *(rows // merge, merge, patch, columns // merge, merge, patch, pixels.shape[2])
        )
        # Axes: block row and column, row and column in the block, channel, pixel row and column.
        ordered = blocks.transpose(0, 3, 1, 4, 6, 2, 5)
        values = normalised_patches(ordered, self.normalization.table(), self.spec.frames)
        return Patches(values, rows, columns)


def check_image_tokens(ids: TokenIds, id: int, placeholder: str, expected: Sequence[int]) -> None:
    """Raise ImageTokensError unless a text has runs of tokens of these lengths, one for each image.

    id, placeholder: id and text of each token of an image.
    """
    is_image = np.concatenate([[False], np.asarray(ids) == id, [False]])
    starts, ends = np.flatnonzero(np.diff(is_image)).reshape(-1, 2).T
    present = (ends - starts).tolist()
    if sum(present) < sum(expected):
        raise ImageTokensError(
            f"the images have {sum(expected)} tokens, of which {sum(present)} fit into the "
            f"{len(ids)} tokens that are read: make them smaller, or put texts after them"
        )
    if present != [*expected]:
        raise ImageTokensError(f"a text next to images has the token {placeholder}; leave it out")


def _options(folder: Path) -> JsonConfig | None:
    options = joint_options(folder, _READ | _IGNORED)
    if options is not None:
        key = next((key for key in _CLASS_KEYS if options.get(key)), _CLASS_KEYS[0])
        options.require(key, *_CLASSES)
    return options


def _check_strip(width: int, height: int) -> None:
    if max(width, height) > _MAX_RATIO * min(width, height):
        raise ImageError(f"one of its sides is more than {_MAX_RATIO} times the other")


def _resized(
    lengths: tuple[int, int], side: int, bounds: tuple[int, int], least: int
) -> tuple[int, int]:
    """Return the width and height of an image in whole blocks of `side` pixels.

    bounds: least and most pixels. least: blocks of the shorter side before the bounds are applied.
    """
    area, (low, high) = math.prod(lengths), bounds
    sizes = [max(least, round(length / side)) * side for length in lengths]
    if math.prod(sizes) > high:
        shrink = math.sqrt(area / high)
        sizes = [max(side, math.floor(length / shrink / side) * side) for length in lengths]
    elif math.prod(sizes) < low:
        stretch = math.sqrt(low / area)
        sizes = [math.ceil(length * stretch / side) * side for length in lengths]
    return sizes[0], sizes[1]


def _bounds(options: JsonConfig) -> tuple[int, int]:
    size = options.get("size", _SIZE)
    names = next((names for names in (_SIZE.keys(), _OLDER) if {*names} == {*size}), None)
    if names is None:
        raise options.unsupported("size", size, "an object with shortest_edge and longest_edge")
    bounds = [options.get(older, size[name]) for older, name in zip(_OLDER, names, strict=True)]
    if not all(type(bound) is int and bound > 0 for bound in bounds):
        raise options.unsupported("size", size, "whole numbers above 0")
    return bounds[0], bounds[1]
