"""The input of a run: files with the same columns, read one after the other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from embedwell.bulk import BulkError
from embedwell.bulk.arrow_files import ARROW_SUFFIXES, arrow_batches, check_columns, open_arrow
from embedwell.bulk.columns import Columns, Rows, has_bytes
from embedwell.bulk.files import InputFile
from embedwell.bulk.line_files import (
    Parser,
    csv_parser,
    infer_schema,
    open_lines,
    parse_jsonl,
    parse_text,
    record_batches,
    uncompressed_suffix,
    warn_of_late_columns,
)

_PARSERS: Mapping[str, Parser] = {
    ".jsonl": parse_jsonl,
    ".ndjson": parse_jsonl,
    ".csv": csv_parser(","),
    ".tsv": csv_parser("\t"),
    ".txt": parse_text,
}


@dataclass(frozen=True)
class Source:
    """Files with the same columns.

    schema: schema of the columns that are read; texts and paths are strings.
    """

    files: list[InputFile]
    columns: Columns
    schema: pa.Schema

    @classmethod
    def open(cls, files: list[InputFile], columns: Columns) -> "Source":
        """Take the columns of the first file with rows. Raises BulkError if others differ."""
        schemas = ((file, _schema(file, columns)) for file in files)
        first, schema = next(((file, schema) for file, schema in schemas if schema), (None, None))
        if first is None or schema is None:
            raise BulkError(f"{files[0].address} has no rows; give files with rows")
        for file in files:
            if not _is_lines(file) and (other := _schema(file, columns)) != schema:
                fields = [str(field) for field in other or () if field not in [*schema]]
                differences = ", ".join(fields) or "fewer columns"
                raise BulkError(
                    f"the columns of {file.address} differ from those of {first.address}: "
                    f"{differences}"
                )
        return cls(files, columns, schema)

    def batches(self) -> Iterator[tuple[Rows, float]]:
        """Yield batches of rows, each with the share of all bytes that has been read."""
        total = sum(file.size for file in self.files) or 1
        before = 0
        for file in self.files:
            read = self._lines(file) if _is_lines(file) else self._arrow(file)
            for rows, done in read:
                yield rows, (before + done * file.size) / total
            before += file.size

    def _lines(self, file: InputFile) -> Iterator[tuple[Rows, float]]:
        with open_lines(file) as lines:
            records = _parser(file)(lines)
            if self.columns.keep is None:
                records = warn_of_late_columns(records, self.schema.names, file.address)
            for rows in record_batches(
                records, self.schema, self.columns.inputs, file.address, lines
            ):
                yield rows, lines.share_read

    def _arrow(self, file: InputFile) -> Iterator[tuple[Rows, float]]:
        with open_arrow(file, uncompressed_suffix(file.path)) as reader:
            yield from arrow_batches(reader, self.schema, self.columns.inputs, file.address)


def _schema(file: InputFile, columns: Columns) -> pa.Schema | None:
    """Return the columns of a file that are read; None for a file of lines without rows."""
    if _is_lines(file):
        with open_lines(file) as lines:
            schema = infer_schema(_parser(file)(lines))
        if not schema.names:
            return None
    else:
        with open_arrow(file, uncompressed_suffix(file.path)) as reader:
            schema = reader.schema
    names = columns.to_read(schema.names, file.address)
    if not _is_lines(file):
        check_columns(schema, columns, file.address)
    types = {name: _plain(schema.field(name).type) for name in names}
    for name in columns.inputs:
        if not (name == columns.image and has_bytes(types[name])):
            types[name] = pa.string()
    return pa.schema(
        [schema.field(name).with_type(types[name]).with_nullable(True) for name in names]
    )


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type whose rows pyarrow can take."""
    return {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(
        kind, kind
    )


def _is_lines(file: InputFile) -> bool:
    return uncompressed_suffix(file.path) not in ARROW_SUFFIXES


def _parser(file: InputFile) -> Parser:
    suffix = uncompressed_suffix(file.path)
    if suffix not in _PARSERS:
        known = ", ".join([*ARROW_SUFFIXES, *_PARSERS])
        raise BulkError(f"{file.address}: a name must end in one of {known}, or .gz after it")
    return _PARSERS[suffix]
