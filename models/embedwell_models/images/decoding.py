"""Decoding of images in allowed formats, within limits."""

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from embedwell_models.errors import ImageError

if TYPE_CHECKING:  # imported when an image is decoded
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
"""Formats that are decoded; only the first frame of an animation is used."""

MAX_PIXELS = 1 << 24
"""Default limit; decoding an image of this size takes a quarter of a gigabyte."""


def decode(data: bytes, max_pixels: int) -> "Image":
    """Decode a file to RGB, rotated by its EXIF data, with transparent parts over white.

    The number of the file's parts is checked before it is opened, and the size in its header before
    pixels are decoded. Raises ImageError for another format, too many parts or pixels, and a
    damaged or truncated file.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    from embedwell_models.images.parts import check_parts

    check_parts(data)
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            check_pixels(image.width, image.height, max_pixels)
            image.load()
            return _rgb(ImageOps.exif_transpose(image))
    except UnidentifiedImageError:
        raise ImageError(f"it is in none of the formats {', '.join(FORMATS)}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageError(f"it has more than {max_pixels} pixels") from None
    except ImageError:
        raise
    except Exception as error:  # decoders raise many kinds of exceptions for a damaged file
        raise ImageError(f"it is damaged or incomplete: {error}") from None


def check_pixels(width: int, height: int, max_pixels: int) -> None:
    """Raise ImageError if a size has more pixels than the limit."""
    if width * height > max_pixels:
        raise ImageError(
            f"it has {width} x {height} pixels, the limit is {max_pixels}: make it smaller"
        )


def _rgb(image: "Image") -> "Image":
    from PIL.Image import alpha_composite, new

    # The same as in transformers 5, except that Pillow's conversion makes every 16-bit grey value
    # above 255 white.
    if image.mode.startswith("I"):
        image = _eight_bit_grey(image)
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image.convert("RGB")
    white = new("RGBA", image.size, (255, 255, 255, 255))
    return alpha_composite(white, image.convert("RGBA")).convert("RGB")


def _eight_bit_grey(image: "Image") -> "Image":
    from PIL.Image import fromarray

    # The high byte of each value, which is also how Pillow reads 16-bit colours.
    values = np.asarray(image)
    grey = (values >> 8).astype(np.uint8)
    grey[values == image.info.get("transparency", -1)] = 255
    return fromarray(grey)
