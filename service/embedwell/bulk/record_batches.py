"""Convert records of lines to Arrow, with types taken from the first lines of the input."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa

from embedwell.bulk.columns import Rows, with_origin
from embedwell.bulk.line_formats import LineReader, Record

log = logging.getLogger(__name__)

SAMPLE = 1000  # lines from which columns and types are inferred
_BATCH_ROWS, _BATCH_BYTES = 1024, 16 << 20
_JSON = {b"encoding": b"json"}  # metadata of a column with JSON texts


def infer_schema(records: Iterable[Record]) -> pa.Schema:
    """Infer the columns of the first records. Objects, and mixed types, become JSON texts."""
    samples = [values for _, values, _ in islice(records, SAMPLE) if values is not None]
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
        return pa.field(name, pa.string(), metadata=_JSON)
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
                *(file, number, ", ".join(sorted(late)), SAMPLE),
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
    if field.metadata == _JSON:
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
