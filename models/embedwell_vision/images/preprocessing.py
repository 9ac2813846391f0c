"""Preprocessing of images, as a checkpoint's preprocessor_config.json states it."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embedwell_models.config.json_config import IMAGE_FILES, JsonConfig, read_object
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats
from embedwell_models.vision import Pixels
from embedwell_vision.images.decoding import check_pixels, decode
from embedwell_vision.specs import ImageSpec

if TYPE_CHECKING:  # imported when a model with images is loaded
    from PIL import Image

_CLIP, _SIGLIP = "CLIPImageProcessor", "SiglipImageProcessor"
_JINA = "JinaCLIPImageProcessor"
_CLIP_DEFAULTS: Mapping[str, Any] = {
    "do_center_crop": True,
    "size": {"shortest_edge": 224},
    "crop_size": {"height": 224, "width": 224},
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_SIGLIP_DEFAULTS: Mapping[str, Any] = {
    "do_center_crop": False,
    "size": {"height": 224, "width": 224},
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
_NATIVE_DEFAULTS: Mapping[str, Any] = {
    "resample": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "patch_size": 16,
    "max_num_patches": 256,
}
_NATIVE = ("Siglip2ImageProcessor", "Siglip2ImageProcessorFast", "Siglip2ImageProcessorPil")
_OF_NATIVE = {"patch_size", "max_num_patches"}
_CLASSES: Mapping[str, Mapping[str, Any]] = {  # defaults of the transformers classes
    _CLIP: _CLIP_DEFAULTS,
    "CLIPImageProcessorFast": _CLIP_DEFAULTS,
    "CLIPFeatureExtractor": _CLIP_DEFAULTS,
    _JINA: _CLIP_DEFAULTS,
    _SIGLIP: _SIGLIP_DEFAULTS,
    "SiglipImageProcessorFast": _SIGLIP_DEFAULTS,
    **dict.fromkeys(_NATIVE, _NATIVE_DEFAULTS),
}
_JINA_KEYS: Mapping[str, str] = {"mean": "image_mean", "std": "image_std", "size": "size"}
_JINA_FILTERS: Mapping[str, int] = {"bicubic": 3, "bilinear": 2}
# Options of Jina's class besides these; fill_color is for images that are padded.
_JINA_OTHERS = {"interpolation", "resize_mode", "fill_color", "auto_map"}
_CLASS_KEYS = ("image_processor_type", "feature_extractor_type")
_READ = {
    *("do_resize", "size", "resample", "do_center_crop", "crop_size", "do_convert_rgb"),
    *("do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std"),
    *("default_to_square", "image_seq_length", *_CLASS_KEYS),
}
# Options of the Python classes that do not change the pixels.
_IGNORED = {
    *("processor_class", "use_fast", "data_format", "device"),
    *("_valid_processor_keys", "disable_grouping", "return_tensors", "input_data_format"),
}
# Of images that keep their proportions (NaFlex): least and greatest factor of the size, and the
# precision of the factor.
_LEAST_FACTOR, _MOST_FACTOR, _FACTOR_STEP = 1e-5 / 10, 100.0, 1e-5


@dataclass(frozen=True)
class Normalization:
    """Normalisation of pixel values: a byte of a channel becomes (scale * byte - mean) / std."""

    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def read(cls, options: JsonConfig) -> "Normalization":
        """Read the rescaling and normalisation from options; raises ModelError."""
        scale = options.get("rescale_factor", 1 / 255) if _flag(options, "do_rescale") else 1.0
        if not _flag(options, "do_normalize"):
            return cls(scale, (0.0,) * 3, (1.0,) * 3)
        return cls(scale, _triple(options, "image_mean"), _triple(options, "image_std"))

    def table(self) -> Floats:
        """Normalised value for each channel and byte: (3, 256)."""
        values = (np.arange(256) * np.float64(self.scale)).astype(np.float32)
        mean, std = (np.array(part, dtype=np.float32)[:, None] for part in (self.mean, self.std))
        table: Floats = (values - mean) / std
        return table


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """Resizing and cropping with Pillow, and normalisation of the pixel values.

    spec: of the encoder, which reads squares; with a table of positions, it reads images of any
    proportions, with at most as many patches as such a square. shortest_edge: length to which the
    shorter edge is resized, with the proportions kept; None to stretch the image to a square.
    resample: Pillow's filter. rounds: whether half a pixel before the centre is rounded to an even
    number, as in torchvision, and not down.
    """

    spec: ImageSpec
    shortest_edge: int | None
    resample: "Image.Resampling"
    normalization: Normalization
    rounds: bool = False

    @classmethod
    def read(cls, folder: Path, spec: ImageSpec) -> "Preprocessing | None":
        """Read the options of a folder; return None if it has no such file.

        Raises ModelError for an unknown option, and for an option that does not fit the encoder.
        """
        options = _options(folder)
        if options is None:
            return None
        options = options.with_defaults(_defaults(options, spec))
        for key in ("do_resize", "do_convert_rgb"):
            options.require(key, True)
        if spec.positions:
            return cls._read_native(options, spec)
        if spec.merge:
            options.require("image_seq_length", spec.tokens)
        side = _side(options)
        if side != spec.image_size:
            raise ModelError(
                f"{options.path}: images become {side} pixels wide and high, the model reads "
                f"{spec.image_size}"
            )
        return cls(
            spec=spec,
            shortest_edge=_shortest_edge(options),
            resample=resampling(options),
            rounds=options.get(_CLASS_KEYS[0]) == _JINA,
            normalization=Normalization.read(options),
        )

    @classmethod
    def _read_native(cls, options: JsonConfig, spec: ImageSpec) -> "Preprocessing":
        for key, value in (("patch_size", spec.patch_size), ("max_num_patches", spec.tokens)):
            if options.get(key, value) != value:
                raise options.unsupported(key, options.get(key), value)
        return cls(
            spec=spec,
            shortest_edge=None,
            resample=resampling(options),
            normalization=Normalization.read(options),
        )

    def table(self) -> Floats:
        """Normalised value for each channel and byte: (3, 256)."""
        return self.normalization.table()

    def pixels(self, data: bytes, max_pixels: int) -> Pixels:
        """Decode, resize and crop an encoded image: (side, side, 3), or (height, width, 3).

        max_pixels: maximum for the image and for its resized copy. Raises ImageError.
        """
        image, spec = decode(data, max_pixels), self.spec
        if spec.positions:
            most = spec.grid**2
            width, height = _native_size(image.width, image.height, spec.patch_size, most)
        else:
            edge, side = self.shortest_edge, spec.image_size
            width, height = _resized(image.width, image.height, edge, side)
        check_pixels(width, height, max_pixels)
        pixels: Pixels = np.asarray(image.resize((width, height), self.resample))
        return pixels if spec.positions else _centre(pixels, spec.image_size, self.rounds)


def normalised_patches(patches: Pixels, table: Floats, frames: int = 1) -> Floats:
    """Normalise the bytes of patches: (..., 3, side, side) -> (N, 3 * frames * side * side).

    table: normalised value for each channel and byte, (3, 256). frames: equal frames of a patch.
    """
    size = patches.shape[-2] * patches.shape[-1]
    numbers = np.ascontiguousarray(patches).reshape(-1, len(table), size)
    values = np.empty((len(numbers), len(table), frames, size), np.float32)
    for channel, of_bytes in enumerate(table):
        # `take` is faster than an index, and without a check: the table has a value for any byte.
        values[:, channel] = of_bytes.take(numbers[:, channel, None], mode="clip")
    return values.reshape(len(numbers), -1)


def files(folder: Path) -> list[Path]:
    """Return the options file of a folder as a list; the list is empty if there is none."""
    stated = _stated(folder)
    return [] if stated is None else [stated[0]]


def _options(folder: Path) -> JsonConfig | None:
    stated = _stated(folder)
    return None if stated is None else _checked(*stated)


def _stated(folder: Path) -> tuple[Path, Any] | None:
    # The file with the options, and these: a processor's image part, or a file of their own.
    joint, own = (folder / name for name in IMAGE_FILES)
    values = read_object(joint).get("image_processor") if joint.exists() else None
    if values is not None:
        return joint, values
    return (own, read_object(own)) if own.exists() else None


def _checked(path: Path, values: Any) -> JsonConfig:
    options = JsonConfig(path, values)
    if options.get(_CLASS_KEYS[0]) == _JINA:
        values = _in_words_of_clip(options, values)
        options = JsonConfig(path, values)
    for key, value in values.items():
        known = _READ | _IGNORED | (_OF_NATIVE if options.get(_CLASS_KEYS[0]) in _NATIVE else set())
        if key not in known and value not in (None, False):
            raise options.unsupported(key, value, sorted(_READ))
    return options


def _in_words_of_clip(options: JsonConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of Jina's class in the words of CLIP's; raises ModelError."""
    options.require("resize_mode", "shortest")
    size = options.get("size", 224)
    others = {key: value for key, value in values.items() if key not in _JINA_OTHERS}
    return {
        **{_JINA_KEYS.get(key, key): value for key, value in others.items()},
        "size": {"shortest_edge": size},
        "crop_size": size,
        "resample": options.choice("interpolation", _JINA_FILTERS, "bicubic"),
    }


def _defaults(options: JsonConfig, spec: ImageSpec) -> Mapping[str, Any]:
    key = next((key for key in _CLASS_KEYS if options.get(key)), _CLASS_KEYS[0])
    if spec.positions:
        return options.choice(key, dict.fromkeys(_NATIVE, _NATIVE_DEFAULTS), _NATIVE[0])
    has_class_token = spec.encoder.config.vocab_size > 0
    return options.choice(key, _CLASSES, _CLIP if has_class_token else _SIGLIP)


def joint_options(folder: Path, known: Set[str]) -> JsonConfig | None:
    """Read the options of a processor's image part, or of its own file; None without either.

    Raises ModelError for an option that is not known.
    """
    stated = _stated(folder)
    if stated is None:
        return None
    options = JsonConfig(*stated)
    options.refuse_unknown(known)
    return options


def resampling(options: JsonConfig) -> "Image.Resampling":
    """Read the filter of resizing; raises ModelError for an unknown one."""
    from PIL import Image

    value, supported = options.get("resample", 3), {int(each) for each in Image.Resampling}
    if value not in supported:
        raise options.unsupported("resample", value, supported)
    return Image.Resampling(value)


def _flag(options: JsonConfig, key: str) -> bool:
    return bool(options.get(key, True))


def _side(options: JsonConfig) -> int:
    key = "crop_size" if _flag(options, "do_center_crop") else "size"
    value = options[key]
    sides = {value} if isinstance(value, int) and key == "crop_size" else _sides(value)
    if len(sides) != 1:
        raise options.unsupported(key, value, "one size of height and width")
    return int(sides.pop())


def _sides(value: Any) -> set[Any]:
    if not isinstance(value, dict) or value.keys() != {"height", "width"}:
        return set()
    return {value["height"], value["width"]}


def _shortest_edge(options: JsonConfig) -> int | None:
    value = options["size"]
    if not isinstance(value, dict):
        options.require("default_to_square", False)
    edge = value.get("shortest_edge") if isinstance(value, dict) else value
    alone = not isinstance(value, dict) or len(value) == 1
    if isinstance(edge, int) and alone and edge >= _side(options):
        return edge
    if _sides(value) == {_side(options)}:
        return None
    raise options.unsupported("size", value, "a shortest_edge, or both sides, that fill the result")


def _triple(options: JsonConfig, key: str) -> tuple[float, ...]:
    values: Sequence[Any] = options[key] if isinstance(options[key], list) else [options[key]] * 3
    positive = key != "image_std" or all(isinstance(v, int | float) and v > 0 for v in values)
    if len(values) != 3 or not all(isinstance(v, int | float) for v in values) or not positive:
        raise options.unsupported(key, options[key], "three numbers, of image_std above 0")
    return tuple(map(float, values))


def _resized(width: int, height: int, shortest_edge: int | None, side: int) -> tuple[int, int]:
    if shortest_edge is None:
        return side, side
    longest = int(shortest_edge * max(width, height) / min(width, height))
    return (shortest_edge, longest) if width <= height else (longest, shortest_edge)


def _native_size(width: int, height: int, patch: int, most: int) -> tuple[int, int]:
    """Return the width and height in whole patches, with about the proportions of an image.

    patch: pixels of a patch's side. most: number of patches, which the size comes close to. The
    factor is found by bisection to the same digits as in transformers' Siglip2ImageProcessor.
    """
    low, high = _LEAST_FACTOR, _MOST_FACTOR
    while high - low >= _FACTOR_STEP:
        middle = (low + high) / 2
        columns, rows = (_patches(length, middle, patch) for length in (width, height))
        low, high = (middle, high) if columns * rows <= most else (low, middle)
    columns, rows = (_patches(length, low, patch) for length in (width, height))
    return columns * patch, rows * patch


def _patches(length: int, factor: float, patch: int) -> int:
    return max(1, ceil(length * factor / patch))


def _centre(pixels: Pixels, side: int, rounds: bool) -> Pixels:
    halves = ((length - side) / 2 for length in pixels.shape[:2])
    top, left = (round(half) if rounds else int(half) for half in halves)
    return pixels[top : top + side, left : left + side]
