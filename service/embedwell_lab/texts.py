"""Read the texts of a file, and another column of it."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import orjson

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_DEFAULT_COLUMN = "text"

Row = tuple[int, Mapping[str, Any]]
"""Number of a line, and its values by column."""


@dataclass(frozen=True)
class TextTable:
    """B texts, each with its value in another column, if one was requested.

    Values are all numbers or None, or else strings, booleans or None.
    """

    texts: list[str]
    values: list[Any]


def read_texts(path: Path, column: str | None = None, value_column: str | None = None) -> TextTable:
    """Read the texts of a file: a column of .csv, .tsv or .jsonl, the lines of any other.

    Blank texts are left out. Raises ClickException for a file that cannot be read, a missing
    column, or no texts.

    column: "text" by default, or the only column.
    """
    rows = list(_read_rows(path, column or value_column))
    columns = list(dict.fromkeys(name for _, row in rows for name in row))
    text_column = column or (columns[0] if len(columns) == 1 else _DEFAULT_COLUMN)
    for name in filter(None, (rows and text_column, rows and value_column)):
        if name not in columns:
            raise click.ClickException(
                f"{path} has no column {name!r}; it has: {', '.join(columns)}"
            )
    texts = [_text(path, row, text_column) for row in rows]
    not_blank = [index for index, text in enumerate(texts) if text.strip()]
    if not not_blank:
        raise click.ClickException(f"{path} has no texts; write one on each line")
    values = [rows[index][1].get(value_column) for index in not_blank] if value_column else []
    if path.suffix.lower() in _DELIMITERS:
        values = _parse_numbers(values)
    return TextTable([texts[index] for index in not_blank], values)


def _read_rows(path: Path, column: str | None) -> Iterator[Row]:
    suffix = path.suffix.lower()
    if suffix == ".json":
        raise click.ClickException(f"{path}: write JSON as .jsonl, with one object on each line")
    if suffix in _DELIMITERS:
        return _csv_rows(path, read_utf8(path), _DELIMITERS[suffix])
    if suffix == ".jsonl":
        return jsonl_rows(path)
    if column is not None:
        raise click.ClickException(
            f"{path} has no columns, because its suffix is not .csv, .tsv or .jsonl; rename it"
        )
    lines = enumerate(read_utf8(path).split("\n"), start=1)
    return ((number, {_DEFAULT_COLUMN: line.removesuffix("\r")}) for number, line in lines)


def read_utf8(path: Path) -> str:
    """Return the text of a file, without a byte order mark. Raises ClickException."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise click.ClickException(
            f"{path} is not UTF-8 (line {line}); convert it first, for example with iconv"
        ) from None


def _csv_rows(path: Path, content: str, delimiter: str) -> Iterator[Row]:
    reader = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if None in row:
                raise click.ClickException(
                    f"{path}, line {reader.line_num}: more fields than the header; quote "
                    "texts that contain the separator"
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise click.ClickException(f"{path}, line {reader.line_num}: {error}") from None


def jsonl_rows(path: Path) -> Iterator[Row]:
    """Yield the objects of lines that are not blank. Raises ClickException."""
    for number, line in enumerate(read_utf8(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise click.ClickException(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise click.ClickException(f"{path}, line {number}: not a JSON object")
        yield number, row


def _text(path: Path, row: Row, column: str) -> str:
    number, values = row
    text = values.get(column)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise click.ClickException(f"{path}, line {number}: {column!r} must be a string")
    return text


def _parse_numbers(values: Sequence[str | None]) -> list[float | None] | list[str | None]:
    """Convert the strings of a CSV column to numbers, if all but the blank ones are numbers."""
    strings = [value.strip() if value else "" for value in values]
    try:
        return [_finite(float(value)) if value else None for value in strings]
    except ValueError:
        return [value or None for value in strings]


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
