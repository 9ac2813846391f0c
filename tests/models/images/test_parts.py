"""Tests that a file of very many parts is refused before Pillow opens it."""

import struct
import zlib
from collections.abc import Callable
from io import BytesIO

import pytest
from PIL import Image

from embedwell_models.errors import ImageError
from embedwell_models.images.parts import check_parts
from tests.models.image_models import encoded, picture

PICTURE = picture(64, 64)
EXIF = b"\xff\xe1\x00\x08Exif\0\0"  # the smallest part that Pillow copies
END = b"\xff\xd9"


def jpeg(parts: bytes) -> bytes:
    data = encoded(PICTURE, "JPEG")
    return data[:2] + parts + data[2:]


def chunk(kind: bytes, body: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + body))
    return struct.pack(">I", len(body)) + kind + body + checksum


def png(parts: bytes, place: int = 33) -> bytes:
    """A PNG with more chunks at a place, by default after its header."""
    data = encoded(PICTURE, "PNG")
    place %= len(data)
    return data[:place] + parts + data[place:]


TEXT = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1000)))
HIDDEN = b"\xff\xf0\xff\xff" + EXIF  # after a marker without length, with what looks like one
MANY: dict[str, Callable[[int], bytes]] = {
    "Exif parts": lambda count: jpeg(count * EXIF),
    "comments": lambda count: jpeg(count * b"\xff\xfe\x00\x02"),
    "parts of length 0": lambda count: jpeg(count * b"\xff\xe1\x00\x00"),
    "filler bytes": lambda count: jpeg(count * b"\xff"),
    "Exif parts after markers without length": lambda count: jpeg(count * HIDDEN),
    "texts": lambda count: png(count * TEXT),
    "texts after the pixels": lambda count: png(count * TEXT, -12),
    "unknown chunks": lambda count: png(count * chunk(b"abCd", b"")),
}


@pytest.mark.parametrize("name", MANY)
def test_a_file_of_too_many_parts_is_refused(name: str) -> None:
    check_parts(MANY[name](50))
    with pytest.raises(ImageError, match="more than 500 parts of metadata"):
        check_parts(MANY[name](501))


def test_a_file_of_many_chunks_of_pixels_is_accepted() -> None:
    pixels = encoded(PICTURE, "PNG").index(b"IDAT") - 4
    check_parts(png(2000 * chunk(b"IDAT", b""), pixels))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_an_ordinary_file_is_accepted_whatever_its_end(kind: str) -> None:
    data = encoded(PICTURE, kind)
    for size in range(len(data) + 1):
        check_parts(data[:size])


def test_a_jpeg_of_too_many_scans_is_refused() -> None:
    data = encoded(PICTURE, "JPEG", progressive=True)
    check_parts(data)
    start = data.rindex(b"\xff\xda")
    with pytest.raises(ImageError, match="more than 100 scans"):
        check_parts(data[:start] + 101 * data[start:-2] + data[-2:])


def test_a_picture_for_both_eyes_of_too_many_scans_is_refused() -> None:
    data = encoded(PICTURE, "MPO", save_all=True, append_images=[PICTURE], progressive=True)
    with Image.open(BytesIO(data)) as image:
        assert image.format == "MPO", "Pillow opens it as another format than JPEG"
    check_parts(data)
    end = data.index(END)
    start = data.rindex(b"\xff\xda", 0, end)
    with pytest.raises(ImageError, match="more than 100 scans"):
        check_parts(data[:start] + 101 * data[start:end] + data[end:])
