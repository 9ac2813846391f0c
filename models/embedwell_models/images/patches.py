"""Preprocessing of images of any size to patches, as Qwen's processor does it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embedwell_models.config.checkpoint_layout import ImageTokenSpec
from embedwell_models.config.json_config import JsonConfig, read_object
from embedwell_models.errors import ImageError, ModelError
from embedwell_models.images.decoding import check_pixels, decode
from embedwell_models.images.preprocessing import FILES, normalization, resampling, value_table
from embedwell_models.vectors import Floats

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
_READ = {
    *("do_resize", "size", "min_pixels", "max_pixels", "resample", "do_convert_rgb"),
    *("do_rescale", "rescale_factor", "do_normalize", *_DEFAULTS, *_CLASS_KEYS),
}
# Options of the Python classes that do not change the pixels of a single image.
_IGNORED = {
    *("processor_class", "use_fast", "data_format", "device", "default_to_square"),
    *("_valid_processor_keys", "disable_grouping", "return_tensors", "input_data_format"),
    *("do_center_crop", "do_pad", "image_processor", "auto_map"),
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

    min_pixels, max_pixels: bounds of the resized image. resample: Pillow's filter. scale, mean,
    std: see Preprocessing. patch, merge: pixels of a patch's side, and patches of a block's side.
    frames: frames of a patch; an image has the same in each.
    """

    min_pixels: int
    max_pixels: int
    resample: "Image.Resampling"
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    patch: int
    merge: int
    frames: int

    @classmethod
    def read(cls, folder: Path, spec: ImageTokenSpec) -> "PatchPreprocessing":
        """Read the options of a folder.

        Raises ModelError for a missing file, an unknown option, and an option that does not fit
        the encoder.
        """
        options = _options(folder).with_defaults(_DEFAULTS)
        for key in ("do_resize", "do_convert_rgb"):
            options.require(key, True)
        for key, expected in (
            ("patch_size", spec.patch_size),
            ("merge_size", spec.merge),
            ("temporal_patch_size", spec.frames),
        ):
            options.require(key, expected)
        least, most = _bounds(options)
        rescaled = options.get("do_rescale", True)
        return cls(
            min_pixels=least,
            max_pixels=most,
            resample=resampling(options),
            scale=options.get("rescale_factor", 1 / 255) if rescaled else 1.0,
            patch=spec.patch_size,
            merge=spec.merge,
            frames=spec.frames,
            **normalization(options),
        )

    def patches(self, data: bytes, max_pixels: int) -> Patches:
        """Decode, resize and cut an encoded image.

        max_pixels: maximum for the image and for its resized copy. Raises ImageError.
        """
        image = decode(data, max_pixels)
        width, height = self.resized(image.width, image.height)
        check_pixels(width, height, max_pixels)
        return self._cut(np.asarray(image.resize((width, height), self.resample)))

    def resized(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height of the resized image; raises ImageError for a strip."""
        if max(width, height) > _MAX_RATIO * min(width, height):
            raise ImageError(f"one of its sides is more than {_MAX_RATIO} times the other")
        side, area = self.patch * self.merge, width * height
        sizes = [round(length / side) * side for length in (width, height)]
        if math.prod(sizes) > self.max_pixels:
            shrink = math.sqrt(area / self.max_pixels)
            sizes = [
                max(side, math.floor(length / shrink / side) * side) for length in (width, height)
            ]
        elif math.prod(sizes) < self.min_pixels:
            stretch = math.sqrt(self.min_pixels / area)
            sizes = [math.ceil(length * stretch / side) * side for length in (width, height)]
        return sizes[0], sizes[1]

    def _cut(self, pixels: "np.ndarray[Any, np.dtype[np.uint8]]") -> Patches:
        merge, patch = self.merge, self.patch
        rows, columns = (length // patch for length in pixels.shape[:2])
        blocks = pixels.reshape(
            rows // merge, merge, patch, columns // merge, merge, patch, pixels.shape[2]
        )
        # Axes: block row and column, row and column in the block, channel, pixel row and column.
        ordered = blocks.transpose(0, 3, 1, 4, 6, 2, 5)
        table = value_table(self.scale, self.mean, self.std)
        values: Floats = table[np.arange(3)[:, None, None], ordered]
        repeated = np.repeat(values[..., None, :, :], self.frames, axis=-3)
        return Patches(repeated.reshape(rows * columns, -1), rows, columns)


def _options(folder: Path) -> JsonConfig:
    joint, own = (folder / name for name in FILES)
    path, values = own, read_object(joint).get("image_processor") if joint.exists() else None
    if values is not None:
        path = joint
    elif not own.exists():
        raise ModelError(f"{folder} has no {own.name}, which says how images are resized")
    options = JsonConfig(path, values)
    options.refuse_unknown(_READ | _IGNORED)
    key = next((key for key in _CLASS_KEYS if options.get(key)), _CLASS_KEYS[0])
    options.require(key, *_CLASSES)
    return options


def _bounds(options: JsonConfig) -> tuple[int, int]:
    size = options.get("size", _SIZE)
    if not isinstance(size, dict) or size.keys() != _SIZE.keys():
        raise options.unsupported("size", size, "an object with shortest_edge and longest_edge")
    bounds = (
        options.get("min_pixels", size["shortest_edge"]),
        options.get("max_pixels", size["longest_edge"]),
    )
    if not all(type(bound) is int and bound > 0 for bound in bounds):
        raise options.unsupported("size", size, "whole numbers above 0")
    return bounds
