"""Read the lines of a plain or compressed file, with a limit for the length of a line."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

import pyarrow as pa

from embedwell.bulk.files import InputFile

MAX_LINE_BYTES = 64 << 20
_BUFFER_BYTES = 8 << 20  # bytes of a request to an object store
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_MARK = b"\xef\xbb\xbf"


def uncompressed_suffix(path: str) -> str:
    """Return the suffix of a name without that of a compression: .jsonl of a.jsonl.gz."""
    name = PurePosixPath(path.lower())
    return PurePosixPath(name.stem).suffix if name.suffix in _CODECS else name.suffix


class LineReader:
    """The lines of a file, which end only at a line feed, each with its number from 1.

    bytes_read: uncompressed bytes of the lines.
    """

    def __init__(self, raw: pa.NativeFile, codec: str | None, size: int) -> None:
        """size: bytes of the file."""
        self._raw, self._size, self.bytes_read = raw, size, 0
        stream = raw if codec is None else pa.CompressedInputStream(raw, codec)
        self._lines = io.BufferedReader(stream, _BUFFER_BYTES)

    @property
    def share_read(self) -> float:
        """Share of the file that has been read."""
        return min(1.0, self._raw.tell() / self._size) if self._size else 1.0

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield lines without their ends; None for a line longer than MAX_LINE_BYTES."""
        number = 0
        while line := self._lines.readline(MAX_LINE_BYTES):
            number += 1
            self.bytes_read += len(line)
            if number == 1:
                line = line.removeprefix(_MARK)
            if len(line) < MAX_LINE_BYTES or line.endswith(b"\n"):
                yield number, line.removesuffix(b"\n").removesuffix(b"\r")
                continue
            while line and not line.endswith(b"\n"):
                line = self._lines.readline(MAX_LINE_BYTES)
            yield number, None


@contextmanager
def open_lines(file: InputFile) -> Iterator[LineReader]:
    """Open a file as a LineReader."""
    codec = _CODECS.get(PurePosixPath(file.path.lower()).suffix)
    with file.files.open_input_file(file.path) as raw:
        yield LineReader(raw, codec, file.size)
