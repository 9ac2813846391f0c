"""Preprocessing of images to as many patches as fit a number of tokens, as Gemma 4's processor."""

import math
from dataclasses import dataclass
from pathlib import Path

from embedwell_models.config.json_config import IMAGE_FILES, JsonConfig, read_object
from embedwell_vision.images.patches import PatchPreprocessing
from embedwell_vision.images.preprocessing import Normalization, resampling
from embedwell_vision.specs import ImageTokenSpec

_CLASSES = ("Gemma4ImageProcessor", "Gemma4ImageProcessorFast", "Gemma4ImageProcessorPil")
_CLASS_KEY = "image_processor_type"
_MOST_TOKENS = (280, 70, 140, 560, 1120)  # the numbers of the processor, its default first
_DEFAULTS = {"patch_size": 16, "pooling_kernel_size": 3}
_READ = {
    *("do_resize", "do_convert_rgb", "do_rescale", "rescale_factor", "do_normalize", "resample"),
    *("patch_size", "pooling_kernel_size", "max_soft_tokens", _CLASS_KEY),
}
# Options that do not change the pixels of a single image, and those of a normalisation.
_IGNORED = {
    *("processor_class", "use_fast", "data_format", "device", "default_to_square"),
    *("disable_grouping", "return_tensors", "input_data_format", "do_pad", "do_center_crop"),
    *("image_seq_length", "image_mean", "image_std"),
}


@dataclass(frozen=True, kw_only=True)
class FilledPatchPreprocessing(PatchPreprocessing):
    """Resizing to whole blocks of patches, of which an image has as many as max_pixels allow."""

    @classmethod
    def read(
        cls,
        folder: Path,
        spec: ImageTokenSpec,
        around: tuple[str, str],
        bounds: tuple[int | None, int | None] = (None, None),
        earlier: tuple[int, int] | None = None,
    ) -> "FilledPatchPreprocessing | None":
        """Read the options of a folder; for more see PatchPreprocessing.

        bounds, earlier: not used, because this processor bounds the number of tokens.
        """
        options = _options(folder)
        if options is None:
            return None
        for key, value in (
            *((key, True) for key in ("do_resize", "do_convert_rgb", "do_rescale")),
            *(("do_normalize", False), ("patch_size", spec.patch_size)),
            ("pooling_kernel_size", spec.merge),
        ):
            options.require(key, value)
        tokens = options.require("max_soft_tokens", *_MOST_TOKENS)
        if tokens * spec.merge > spec.grid:
            most = spec.grid // spec.merge
            message = f"at most {most}, for which the encoder has positions"
            raise options.unsupported("max_soft_tokens", tokens, message)
        _check_tokenizer(folder, spec)
        side = spec.patch_size * spec.merge
        # The encoder maps a pixel to the numbers from -1 to 1.
        scale = Normalization.read(options.with_values({"do_normalize": False})).scale
        return cls(
            spec=spec,
            min_pixels=0,
            max_pixels=tokens * side**2,
            resample=resampling(options),
            normalization=Normalization(scale, (0.5,) * 3, (0.5,) * 3),
            around=around,
        )

    def resized(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height of the resized image, whose proportions are about kept."""
        factor = math.sqrt(self.max_pixels / (width * height))
        columns, rows = (math.floor(factor * length / self.side) for length in (width, height))
        most = self.max_pixels // self.side**2
        if not rows:  # a strip is one block high, or wide
            columns, rows = min(width // height, most), 1
        elif not columns:
            columns, rows = 1, min(height // width, most)
        return columns * self.side, rows * self.side


def files(folder: Path) -> list[Path]:
    """Return the options file of a folder as a list; the list is empty if there is none."""
    options = _options(folder)
    return [] if options is None else [options.path]


def _options(folder: Path) -> JsonConfig | None:
    # Another file next to it is of sounds.
    path = folder / IMAGE_FILES[0]
    values = read_object(path).get("image_processor") if path.exists() else None
    if values is None:
        return None
    options = JsonConfig(path, values, "image_processor.")
    options.refuse_unknown(_READ | _IGNORED)
    options.require(_CLASS_KEY, *_CLASSES)
    return options.with_defaults(_DEFAULTS)


def _check_tokenizer(folder: Path, spec: ImageTokenSpec) -> None:
    # The processor takes the texts of an image's tokens from the tokenizer.
    tokenizer = JsonConfig.optional(folder / "tokenizer_config.json")
    texts = (spec.placeholder, *spec.around)
    for key, text in zip(("image_token", "boi_token", "eoi_token"), texts, strict=True):
        tokenizer.require(key, text)
