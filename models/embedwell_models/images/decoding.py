"""Decoding of images in allowed formats, within limits."""

from io import BytesIO

from PIL import Image, ImageOps, UnidentifiedImageError

from embedwell_models.errors import ImageError

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
"""Formats that are decoded; only the first frame of an animation is used."""

MAX_PIXELS = 1 << 24
"""Default limit; decoding an image of this size takes a quarter of a gigabyte."""

_MAX_SCANS, _START_OF_SCAN = 100, b"\xff\xda"
_BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)


def decode(data: bytes, max_pixels: int) -> Image.Image:
    """Decode a file to RGB, rotated by its EXIF data, with transparent parts over white.

    The size in the file's header is checked before pixels are decoded. Raises ImageError for
    another format, too many pixels, and a damaged or truncated file.
    """
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            check_pixels(image.width, image.height, max_pixels)
            _check_scans(image.format, data)
            image.load()
            return _rgb(ImageOps.exif_transpose(image))
    except UnidentifiedImageError:
        raise ImageError(f"it is in none of the formats {', '.join(FORMATS)}") from None
    except _BOMBS:
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


def _check_scans(kind: str | None, data: bytes) -> None:
    # Each scan of a progressive JPEG passes over all pixels; encoders write about ten scans.
    if kind == "JPEG" and data.count(_START_OF_SCAN) > _MAX_SCANS:
        raise ImageError(f"it is a JPEG with more than {_MAX_SCANS} scans")


def _rgb(image: Image.Image) -> Image.Image:
    # The same as in transformers 5.
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
