"""Parse the lines of JSONL, CSV and plain text into records."""

import csv
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from embedwell.bulk.errors import BulkError
from embedwell.bulk.line_reader import MAX_LINE_BYTES, LineReader

Record = tuple[int, Mapping[str, Any] | None, str | None]
"""Number of a line, its values by column, and the reason if it has none."""

Parser = Callable[[LineReader], Iterator[Record]]

LINE_COLUMN = "text"  # column of the lines of a plain text
_TOO_LONG = f"longer than {MAX_LINE_BYTES >> 20} MiB"


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
        except csv.Error as error:
            raise BulkError(f"the first line is not a CSV header: {error}") from None
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
    for _, line in lines:
        yield "" if line is None else line.decode(errors="surrogateescape") + "\n"


def _csv_record(number: int, header: list[str], row: list[str]) -> Record:
    if len(row) != len(header):
        return number, None, f"{len(row)} fields, but the header has {len(header)}"
    try:
        "".join(row).encode()
    except UnicodeEncodeError:  # a byte that could not be decoded
        return number, None, "not UTF-8"
    return number, dict(zip(header, row, strict=True)), None
