"""Tests that images are decoded as in transformers, and others refused before they take memory."""

import struct
import zlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from transformers.image_transforms import convert_to_rgb

from embedwell_models.errors import ImageError
from embedwell_models.images.decoding import decode
from tests.models.image_models import encoded, picture

LIMIT = 1 << 20
_EXIF_ORIENTATION = 0x0112


def pixels(data: bytes, limit: int = LIMIT) -> np.ndarray:
    return np.asarray(decode(data, limit))


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *[("PNG", mode) for mode in ("RGB", "RGBA", "L", "LA", "P", "1", "I;16")],
        *[("JPEG", mode) for mode in ("RGB", "L", "CMYK")],
        *[("WEBP", mode) for mode in ("RGB", "RGBA")],
        *[("GIF", mode) for mode in ("P", "L")],
    ],
)
def test_each_format_and_mode_becomes_rgb_as_in_transformers(kind: str, mode: str) -> None:
    start = "L" if mode == "I;16" else "RGBA"
    image = picture(40, 30, mode=start).convert(mode)
    data = encoded(image, kind)
    with Image.open(BytesIO(data)) as plain:
        expected = convert_to_rgb(plain, return_numpy=True)
    assert pixels(data).shape == (30, 40, 3)
    np.testing.assert_array_equal(pixels(data), expected)


def test_transparent_parts_are_white() -> None:
    image = Image.new("RGBA", (2, 1), (255, 0, 0, 255))
    image.putpixel((1, 0), (0, 0, 0, 0))
    assert pixels(encoded(image)).tolist() == [[[255, 0, 0], [255, 255, 255]]]


def test_a_transparent_colour_of_a_palette_is_white() -> None:
    image = Image.new("P", (2, 1), 0)
    image.putpalette([0, 0, 0, 10, 20, 30])
    image.putpixel((1, 0), 1)
    found = pixels(encoded(image, "GIF", transparency=0)).tolist()
    assert found == [[[255, 255, 255], [10, 20, 30]]]


def test_a_photograph_is_turned_upright() -> None:
    image, exif = picture(40, 30), Image.Exif()
    exif[_EXIF_ORIENTATION] = 6  # to be turned clockwise
    found = pixels(encoded(image, "PNG", exif=exif))
    np.testing.assert_array_equal(found, np.rot90(np.asarray(image), -1))


def test_an_animation_is_its_first_frame() -> None:
    first, second = picture(8, 8, 1, "L"), picture(8, 8, 2, "L")
    data = encoded(first, "GIF", save_all=True, append_images=[second])
    np.testing.assert_array_equal(pixels(data)[..., 0], np.asarray(first))


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "PPM", "ICO", "TGA"])
def test_another_format_is_refused(kind: str) -> None:
    with pytest.raises(ImageError, match="none of the formats PNG, JPEG, WEBP, GIF"):
        decode(encoded(picture(32, 32), kind), LIMIT)


@pytest.mark.parametrize("data", [b"", b"text", b"\x89PNG\r\n\x1a\n", b"GIF89a"])
def test_what_is_no_image_is_refused(data: bytes) -> None:
    with pytest.raises(ImageError):
        decode(data, LIMIT)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_truncated_file_is_refused(kind: str) -> None:
    data = encoded(picture(200, 200), kind)
    with pytest.raises(ImageError, match="damaged or incomplete"):
        decode(data[: len(data) // 2], LIMIT)


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header alone says that it is large: to decode it would fail otherwise."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    empty = chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + empty


@pytest.mark.parametrize("side", [1025, 12_000, 60_000])
def test_a_bomb_is_refused_by_its_header(side: int) -> None:
    with pytest.raises(ImageError, match=r"pixels"):
        decode(bomb(side, side), LIMIT)


def test_an_image_of_the_limit_is_decoded() -> None:
    assert pixels(encoded(picture(32, 32)), 1024).shape == (32, 32, 3)
    with pytest.raises(ImageError, match="32 x 32 pixels, the limit is 1023"):
        decode(encoded(picture(32, 32)), 1023)


def test_a_jpeg_of_too_many_scans_is_refused() -> None:
    data = encoded(picture(64, 64), "JPEG", progressive=True)
    assert pixels(data).shape == (64, 64, 3)
    start = data.rindex(b"\xff\xda")
    with pytest.raises(ImageError, match="more than 100 scans"):
        decode(data[:start] + 101 * data[start:-2] + data[-2:], LIMIT)
