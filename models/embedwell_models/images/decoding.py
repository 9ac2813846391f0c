"""Decode an image of an allowed format, within limits."""

from io import BytesIO

from PIL import Image, ImageOps, UnidentifiedImageError

from embedwell_models.errors import ImageError

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
"""The formats that are decoded; of an animation, the first frame."""

MAX_PIXELS = 1 << 24
"""The default limit; a file of so many takes a quarter of a gigabyte while it is decoded."""

_MAX_SCANS, _START_OF_SCAN = 100, b"\xff\xda"
_BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)


def decode(data: bytes, max_pixels: int) -> Image.Image:
    """Decode a file to RGB, turned upright by its EXIF data, transparent parts over white.

    Nothing is decoded before the size in the file's header is checked. Raises ImageError for
    another format, more pixels, or a damaged or truncated file.
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
    except Exception as error:  # the decoders raise many kinds for a damaged file
        raise ImageError(f"it is damaged or incomplete: {error}") from None


def check_pixels(width: int, height: int, max_pixels: int) -> None:
    """Raise ImageError for a size of more pixels than the limit."""
    if width * height > max_pixels:
        raise ImageError(
            f"it has {width} x {height} pixels, the limit is {max_pixels}: make it smaller"
        )


def _check_scans(kind: str | None, data: bytes) -> None:
    # Each scan of a progressive JPEG goes over all pixels; encoders write about ten.
    if kind == "JPEG" and data.count(_START_OF_SCAN) > _MAX_SCANS:
        raise ImageError(f"it is a JPEG of more than {_MAX_SCANS} scans")


def _rgb(image: Image.Image) -> Image.Image:
    # As transformers 5 does it.
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
