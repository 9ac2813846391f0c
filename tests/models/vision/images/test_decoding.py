"""Tests that images are decoded as in transformers, and costly ones refused before that."""

import struct
import zlib
from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from transformers.image_transforms import convert_to_rgb

from embedwell_models.errors import ImageError
from embedwell_vision.images.decoding import check_parts, decode, pixel_count
from tests.models.image_models import encoded, picture

LIMIT = 1 << 20
_EXIF_ORIENTATION = 0x0112


def pixels(data: bytes, limit: int = LIMIT) -> np.ndarray:
    return np.asarray(decode(data, limit))


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *[("PNG", mode) for mode in ("RGB", "RGBA", "L", "LA", "P", "1")],
        *[("JPEG", mode) for mode in ("RGB", "L", "CMYK")],
        *[("WEBP", mode) for mode in ("RGB", "RGBA")],
        *[("GIF", mode) for mode in ("P", "L")],
    ],
)
def test_each_format_and_mode_becomes_rgb_as_in_transformers(kind: str, mode: str) -> None:
    data = encoded(picture(40, 30, mode="RGBA").convert(mode), kind)
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


def png(
    width: int, height: int, depth: int, colours: int, body: bytes = b"", *more: bytes
) -> bytes:
    """A PNG with given bits a sample and colour type. more: chunks between header and body."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(more) + data


def chunk(kind: bytes, body: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + body))
    return struct.pack(">I", len(body)) + kind + body + checksum


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header alone says that it is large: to decode it would fail otherwise."""
    return png(width, height, 8, 2)


GREY, RGB, GREY_ALPHA, RGB_ALPHA = (0, 1), (2, 3), (4, 2), (6, 4)
"""Colour types of a PNG, and their samples for each pixel."""


@pytest.mark.parametrize("colours", [GREY, RGB, GREY_ALPHA, RGB_ALPHA])
def test_sixteen_bits_of_a_sample_are_read_by_their_high_byte(colours: tuple[int, int]) -> None:
    kind, samples = colours
    values = np.arange(0, 1 << 16, 257).astype(">u2")  # 0x0000, 0x0101, … 0xffff
    wide = np.repeat(values, samples).reshape(256, samples)
    if samples % 2 == 0:
        wide[:, -1] = 0xFFFF
    data = png(256, 1, 16, kind, b"\0" + wide.tobytes())
    np.testing.assert_array_equal(pixels(data)[0], np.repeat(np.arange(256), 3).reshape(256, 3))


def test_a_transparent_grey_of_sixteen_bits_is_white() -> None:
    values = np.array([0x0100, 0x0101, 0x8000, 0x0001], dtype=">u2")
    transparent = chunk(b"tRNS", struct.pack(">H", 0x0101))
    data = png(4, 1, 16, 0, b"\0" + values.tobytes(), transparent)
    assert pixels(data)[0, :, 0].tolist() == [1, 255, 128, 0]


def test_a_picture_in_sixteen_bit_grey_equals_its_eight_bit_twin() -> None:
    grey = picture(40, 30, mode="L")
    wide = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    assert wide.mode == "I;16"
    np.testing.assert_array_equal(pixels(encoded(wide)), pixels(encoded(grey)))


@pytest.mark.parametrize("side", [1025, 12_000, 60_000])
def test_a_bomb_is_refused_by_its_header(side: int) -> None:
    with pytest.raises(ImageError, match=r"pixels"):
        decode(bomb(side, side), LIMIT)


def test_an_image_of_the_limit_is_decoded() -> None:
    assert pixels(encoded(picture(32, 32)), 1024).shape == (32, 32, 3)
    with pytest.raises(ImageError, match="32 x 32 pixels, the limit is 1023"):
        decode(encoded(picture(32, 32)), 1023)


@pytest.mark.parametrize("kind", ["JPEG", "MPO"])
def test_parts_are_counted_before_the_file_is_opened(kind: str) -> None:
    image = picture(64, 64)
    options = {"save_all": True, "append_images": [image]} if kind == "MPO" else {}
    data = encoded(image, kind, progressive=True, **options)
    assert pixels(data).shape == (64, 64, 3)
    end = data.index(b"\xff\xd9")
    start = data.rindex(b"\xff\xda", 0, end)
    with pytest.raises(ImageError, match="more than 100 scans"):
        decode(data[:start] + 101 * data[start:end] + data[end:], LIMIT)


PICTURE = picture(64, 64)
EXIF = b"\xff\xe1\x00\x08Exif\0\0"  # the smallest part that Pillow copies
END = b"\xff\xd9"


def jpeg_with(parts: bytes) -> bytes:
    data = encoded(PICTURE, "JPEG")
    return data[:2] + parts + data[2:]


def png_with(parts: bytes, place: int = 33) -> bytes:
    """A PNG with more chunks at a place, by default after its header."""
    data = encoded(PICTURE, "PNG")
    place %= len(data)
    return data[:place] + parts + data[place:]


TEXT = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1000)))
HIDDEN = b"\xff\xf0\xff\xff" + EXIF  # after a marker without length, with what looks like one
MANY: dict[str, Callable[[int], bytes]] = {
    "Exif parts": lambda count: jpeg_with(count * EXIF),
    "comments": lambda count: jpeg_with(count * b"\xff\xfe\x00\x02"),
    "parts of length 0": lambda count: jpeg_with(count * b"\xff\xe1\x00\x00"),
    "filler bytes": lambda count: jpeg_with(count * b"\xff"),
    "Exif parts after markers without length": lambda count: jpeg_with(count * HIDDEN),
    "texts": lambda count: png_with(count * TEXT),
    "texts after the pixels": lambda count: png_with(count * TEXT, -12),
    "unknown chunks": lambda count: png_with(count * chunk(b"abCd", b"")),
}


@pytest.mark.parametrize("name", MANY)
def test_a_file_of_too_many_parts_is_refused(name: str) -> None:
    check_parts(MANY[name](50))
    with pytest.raises(ImageError, match="more than 500 parts of metadata"):
        check_parts(MANY[name](501))


def test_a_file_of_many_chunks_of_pixels_is_accepted() -> None:
    pixels = encoded(PICTURE, "PNG").index(b"IDAT") - 4
    check_parts(png_with(2000 * chunk(b"IDAT", b""), pixels))


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


def texts_of(characters: int, count: int) -> bytes:
    """Texts of a PNG, all but one of whose characters take a byte; Python then keeps four each."""
    text = ("a" * (characters - 1) + "\U0001f600").encode()[-characters:]
    return b"".join(
        chunk(b"iTXt", b"%d\0\1\0\0\0" % index + zlib.compress(text)) for index in range(count)
    )


@pytest.mark.parametrize("place", [33, -12], ids=["before the pixels", "after the pixels"])
def test_texts_that_inflate_beyond_pillows_limits_are_refused(place: int) -> None:
    most = 1 << 20
    assert pixels(png_with(texts_of(most, 2), place)).shape == (64, 64, 3)
    for texts in (texts_of(most + 1, 1), texts_of(most, 65)):
        with pytest.raises(ImageError, match=r"text chunks|too large for .*MAX_TEXT_CHUNK"):
            decode(png_with(texts, place), LIMIT)


def test_a_text_counts_as_many_pixels_as_pillow_reads_of_its_characters() -> None:
    assert pixel_count(png_with(b"")) == 64 * 64
    assert pixel_count(png_with(3 * TEXT)) == 64 * 64 + 3 * (1 << 20)
    assert pixel_count(png_with(texts_of(8, 2), -12)) == 64 * 64 + 2 * (1 << 20)
