"""Decoding of images in allowed formats, within limits."""

from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from embedwell_models.errors import ImageError

if TYPE_CHECKING:  # imported when an image is decoded
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
"""Formats that are decoded; only the first frame of an animation is used."""

_MAX_PARTS = 500  # of metadata; Pillow spends up to a millisecond on each, most files have ten
_MAX_SCANS = 100  # each scan of a progressive JPEG passes over all pixels; encoders write about ten

_TEXTS = (b"zTXt", b"iTXt")  # parts of a PNG that may be compressed

_JPEG, _PNG = b"\xff\xd8", b"\x89PNG"
_START_OF_SCAN = 0xFFDA


def decode(data: bytes, max_pixels: int) -> "Image":
    """Decode a file to RGB, rotated by its EXIF data, with transparent parts over white.

    The number of the file's parts is checked before it is opened, and the size in its header before
    pixels are decoded. Raises ImageError for another format, too many parts or pixels, and a
    damaged or truncated file.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    check_parts(data)
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            check_pixels(image.width, image.height, max_pixels)
            image.load()
            ImageOps.exif_transpose(image, in_place=True)  # no copy if nothing is to rotate
            return _rgb(image)
    except UnidentifiedImageError:
        raise ImageError(f"it is in none of the formats {', '.join(FORMATS)}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageError(f"it has more than {max_pixels} pixels") from None
    except ImageError:
        raise
    except Exception as error:  # decoders raise many kinds of exceptions for a damaged file
        raise ImageError(f"it is damaged or incomplete: {error}") from None


def pixel_count(data: bytes) -> int:
    """Return the number of pixels in a file's header; 0 for a file that `decode` refuses.

    Pillow keeps the texts of a PNG next to its pixels. One that may be compressed counts as the
    longest that Pillow reads, and a character as a pixel, which takes as much memory.
    """
    from PIL import Image
    from PIL.PngImagePlugin import MAX_TEXT_CHUNK

    try:
        check_parts(data)
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            return image.width * image.height + MAX_TEXT_CHUNK * _texts(data)
    except Exception:  # decoders raise many kinds of exceptions for a damaged file
        return 0


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
        return image if image.mode == "RGB" else image.convert("RGB")
    white = new("RGBA", image.size, (255, 255, 255, 255))
    return alpha_composite(white, image.convert("RGBA")).convert("RGB")


def _eight_bit_grey(image: "Image") -> "Image":
    from PIL.Image import fromarray

    # The high byte of each value, which is also how Pillow reads 16-bit colours.
    values = np.asarray(image)
    grey = (values >> 8).astype(np.uint8)
    grey[values == image.info.get("transparency", -1)] = 255
    return fromarray(grey)


def check_parts(data: bytes) -> None:
    """Raise ImageError for a JPEG or PNG of too many parts; the file need not be valid.

    Pillow copies all Exif parts of a JPEG for each one, and inflates each text of a PNG. For the
    parts of other formats it takes no longer than for the pixels of a large image.
    """
    parts: Iterator[int] = iter(())
    if data.startswith(_JPEG):
        parts = _jpeg_parts(data)
        if data.count(_START_OF_SCAN.to_bytes(2)) > _MAX_SCANS:
            raise ImageError(f"it is a JPEG with more than {_MAX_SCANS} scans")
    elif data.startswith(_PNG):
        parts = _png_parts(data)
    if sum(1 for _ in islice(parts, _MAX_PARTS + 1)) > _MAX_PARTS:
        raise ImageError(
            f"it has more than {_MAX_PARTS} parts of metadata; save it without its metadata"
        )


def _jpeg_parts(data: bytes) -> Iterator[int]:
    """Yield the place of each marker and of each filler byte before the first scan."""
    from PIL.JpegImagePlugin import MARKER

    place = 2
    while place + 3 < len(data):
        yield place
        marker = int.from_bytes(data[place : place + 2])
        if marker == _START_OF_SCAN:
            return
        # Pillow reads no length after a marker for which it has no handler.
        if marker in MARKER and MARKER[marker][2] is not None:
            place += 2 + max(2, int.from_bytes(data[place + 2 : place + 4]))
        else:
            place += 1


def _texts(data: bytes) -> int:
    """Return the number of a PNG's texts that may be compressed; 0 for another format."""
    places = _png_parts(data) if data.startswith(_PNG) else ()
    return sum(data[place + 4 : place + 8] in _TEXTS for place in places)


def _png_parts(data: bytes) -> Iterator[int]:
    """Yield the place of each chunk without pixels."""
    place = 8
    while place + 8 <= len(data):
        if data[place + 4 : place + 8] != b"IDAT":
            yield place
        place += 12 + int.from_bytes(data[place : place + 4])
