"""Count the parts of an image file, so that a file of very many is refused before it is opened."""

from collections.abc import Iterator
from itertools import islice

from PIL.JpegImagePlugin import MARKER

from embedwell_models.errors import ImageError

_MAX_PARTS = 500  # of metadata; Pillow spends up to a millisecond on each, most files have ten
_MAX_SCANS = 100  # each scan of a progressive JPEG passes over all pixels; encoders write about ten

_JPEG, _PNG = b"\xff\xd8", b"\x89PNG"
_START_OF_SCAN = 0xFFDA


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


def _png_parts(data: bytes) -> Iterator[int]:
    """Yield the place of each chunk without pixels."""
    place = 8
    while place + 8 <= len(data):
        if data[place + 4 : place + 8] != b"IDAT":
            yield place
        place += 12 + int.from_bytes(data[place : place + 4])
