"""Read the lines of JSONL, CSV and plain text, also compressed, and convert them to Arrow."""

import csv
import io
import logging
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

import orjson
import pyarrow as pa

from embedwell_bulk import BulkError
from embedwell_bulk.columns import Rows, with_origin
from embedwell_bulk.files import InputFile

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 64 << 20
_BUFFER_BYTES = 8 << 20  # bytes of a request to an object store
_SMALL_BUFFER = 4 << 10
SAMPLE_LINES = 1000  # lines from which columns and types are inferred
LINE_COLUMN = "text"  # column of the lines of a plain text
_TOO_LONG = f"longer than {MAX_LINE_BYTES >> 20} MiB"
_BATCH_ROWS, _BATCH_BYTES = 1024, 16 << 20
_JSON_METADATA = {b"encoding": b"json"}  # of a column with JSON texts
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def uncompressed_suffix(path: str) -> str:
    """Return the suffix of a name without that of a compression: .jsonl of a.jsonl.gz."""
    name = PurePosixPath(path.lower())
    return PurePosixPath(name.stem).suffix if name.suffix in _CODECS else name.suffix


class LineReader:
    """The lines of a file, which end only at a line feed, each with its number from 1.

    bytes_read: uncompressed bytes of the lines. lines_read: their number. Reading a damaged file
    raises OSError.
    """

    def __init__(self, raw: pa.NativeFile, codec: str | None, size: int) -> None:
        """size: bytes of the file."""
        self._raw, self._size, self.bytes_read, self.lines_read = raw, size, 0, 0
        stream = raw if codec is None else pa.CompressedInputStream(raw, codec)
        # The lines before a damage that are in the buffer with it are lost.
        self._lines = io.BufferedReader(stream, _BUFFER_BYTES if codec is None else _SMALL_BUFFER)

    @property
    def share_read(self) -> float:
        """Share of the file that has been read."""
        return min(1.0, self._raw.tell() / self._size) if self._size else 1.0

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield lines without their ends; None for a line longer than MAX_LINE_BYTES."""
        for number, line in self.with_ends():
            yield number, line and line.removesuffix(b"\n").removesuffix(b"\r")

    def with_ends(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield lines with their ends; None for a line longer than MAX_LINE_BYTES."""
        while line := self._lines.readline(MAX_LINE_BYTES):
            self.lines_read += 1
            self.bytes_read += len(line)
            if self.lines_read == 1:
                line = line.removeprefix(BOM_UTF8)
            if len(line) < MAX_LINE_BYTES or line.endswith(b"\n"):
                yield self.lines_read, line
                continue
            while line and not line.endswith(b"\n"):
                line = self._lines.readline(MAX_LINE_BYTES)
            yield self.lines_read, None


@contextmanager
def open_lines(file: InputFile) -> Iterator[LineReader]:
    """Open a file as a LineReader. Raises BulkError."""
    codec = _CODECS.get(PurePosixPath(file.path.lower()).suffix)
    with file.open() as raw:
        yield LineReader(raw, codec, file.size)


Record = tuple[int, Mapping[str, Any] | None, str | None]
"""Number of a line, its values by column, and the reason if it has none."""

Parser = Callable[[LineReader], Iterator[Record]]


def parse_text(lines: LineReader) -> Iterator[Record]:
    """Yield a record for each line."""
    for number, line in lines:
        if line is None:
            yield number, None, _TOO_LONG
            continue
        try:
            yield number, {LINE_COLUMN: line.decode()}, None
        except UnicodeDecodeError:
            yield number, None, "not UTF-8"


def parse_jsonl(lines: LineReader) -> Iterator[Record]:
    """Yield a record for each line that is not blank."""
    for number, line in lines:
        if line is None:
            yield number, None, _TOO_LONG
        elif line.strip():
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                yield number, None, f"not JSON: {error}"
                continue
            is_object = isinstance(record, dict)
            yield number, record if is_object else None, None if is_object else "not a JSON object"


def csv_parser(delimiter: str) -> Parser:
    """Create a parser of CSV, whose first line names the columns; values are strings."""

    def parse(lines: LineReader) -> Iterator[Record]:
        csv.field_size_limit(MAX_LINE_BYTES)
        rows = csv.reader(_decoded(lines), delimiter=delimiter, strict=True)
        try:
            header = next(rows, [])
            "".join(header).encode()
        except csv.Error as error:
            raise BulkError(f"the first line is not a CSV header: {error}") from None
        except UnicodeEncodeError:  # a byte that could not be decoded
            raise BulkError("the first line is not UTF-8; convert the file first") from None
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield rows.line_num, None, f"not CSV: {error}"
                continue
            if row:  # blank lines have no fields
                yield _csv_record(rows.line_num, header, row)

    return parse


def _decoded(lines: LineReader) -> Iterator[str]:
    for _, line in lines.with_ends():
        yield "\n" if line is None else line.decode(errors="surrogateescape")


def _csv_record(number: int, header: list[str], row: list[str]) -> Record:
    if len(row) != len(header):
        return number, None, f"{len(row)} fields, but the header has {len(header)}"
    try:
        "".join(row).encode()
    except UnicodeEncodeError:  # a byte that could not be decoded
        return number, None, "not UTF-8"
    return number, dict(zip(header, row, strict=True)), None


def infer_schema(records: Iterable[Record]) -> pa.Schema:
    """Infer the columns of the first records. Objects, and mixed types, become JSON texts."""
    samples = [values for _, values, _ in islice(records, SAMPLE_LINES) if values is not None]
    names = dict.fromkeys(name for values in samples for name in values)
    return pa.schema([_infer_field(name, [v.get(name) for v in samples]) for name in names])


def _infer_field(name: str, values: Sequence[Any]) -> pa.Field:
    try:
        kind = pa.infer_type(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        kind = None
    if pa.types.is_null(kind):
        return pa.field(name, pa.string())
    # A struct would lose fields that only later rows have.
    if kind is None or "struct" in str(kind):
        return pa.field(name, pa.string(), metadata=_JSON_METADATA)
    return pa.field(name, kind)


def record_batches(
    records: Iterator[Record],
    schema: pa.Schema,
    inputs: Sequence[str],
    file: str,
    lines: LineReader,
) -> Iterator[Rows]:
    """Convert records to batches. A value that does not fit the schema invalidates its row.

    inputs: the columns that are embedded, one of which a row needs.
    """
    for batch in _cut(records, lines):
        reasons = [reason or _problem(values or {}, inputs) for _, values, reason in batch]
        columns = [
            _column([(values or {}).get(field.name) for _, values, _ in batch], field, reasons)
            for field in schema
        ]
        yield with_origin(
            pa.RecordBatch.from_arrays(columns, schema=schema),
            file,
            [number for number, _, _ in batch],
            pa.array(reasons, pa.string()),
        )


def warn_of_late_columns(
    records: Iterable[Record], known: Iterable[str], file: str
) -> Iterator[Record]:
    """Yield records unchanged, and log each column that the schema lacks once."""
    names = {*known}
    for number, values, reason in records:
        if late := (values or {}).keys() - names:
            log.warning(
                "%s, line %d: the column %s is left out, because the first %d lines do not have it",
                *(file, number, ", ".join(sorted(late)), SAMPLE_LINES),
            )
            names |= late
        yield number, values, reason


def _cut(records: Iterable[Record], lines: LineReader) -> Iterator[list[Record]]:
    batch: list[Record] = []
    start = lines.bytes_read
    for record in records:
        batch.append(record)
        if len(batch) == _BATCH_ROWS or lines.bytes_read - start >= _BATCH_BYTES:
            yield batch
            batch, start = [], lines.bytes_read
    if batch:
        yield batch


def _problem(values: Mapping[str, Any], inputs: Sequence[str]) -> str | None:
    present = [name for name in inputs if values.get(name) is not None] or inputs
    problems = (_text_problem(values, name) for name in present)
    return " and ".join(filter(None, problems)) or None


def _text_problem(values: Mapping[str, Any], text: str) -> str | None:
    value = values.get(text)
    if value is None:
        return f"{text} is null" if text in values else f"no {text}"
    return None if isinstance(value, str) else f"{text} is not a string"


def _column(values: list[Any], field: pa.Field, reasons: list[str | None]) -> pa.Array:
    """Convert values, and write the reason of each value that does not fit into `reasons`."""
    if field.metadata == _JSON_METADATA:
        values = [None if value is None else orjson.dumps(value).decode() for value in values]
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        pass
    for index, value in enumerate(values):
        try:
            pa.array([value], field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            values[index] = None
            reasons[index] = reasons[index] or f"{field.name} does not have the type {field.type}"
    return pa.array(values, field.type)
