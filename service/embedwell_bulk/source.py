"""The input of a run: files with the same columns, read one after the other."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from embedwell_bulk import BulkError
from embedwell_bulk.arrow_files import ARROW_SUFFIXES, arrow_batches, check_columns, open_arrow
from embedwell_bulk.columns import Columns, Rows, has_bytes, row_without_values
from embedwell_bulk.files import InputFile
from embedwell_bulk.line_files import (
    LineReader,
    Parser,
    Record,
    csv_parser,
    infer_schema,
    open_lines,
    parse_jsonl,
    parse_text,
    record_batches,
    uncompressed_suffix,
    warn_of_late_columns,
)

log = logging.getLogger(__name__)

_PARSERS: Mapping[str, Parser] = {
    ".jsonl": parse_jsonl,
    ".ndjson": parse_jsonl,
    ".csv": csv_parser(","),
    ".tsv": csv_parser("\t"),
    ".txt": parse_text,
}


def _folder_columns(files: Sequence[InputFile]) -> pa.Schema:
    """Return the columns that folders name, as Hive and Spark write them: lang=en/part-0.parquet.

    Their type is int32 if each value of a column is such a number, else string, as pyarrow infers
    it. A file whose own columns have one of these names has its own values.
    """
    names = dict.fromkeys(name for file in files for name in _names(file))
    texts = pa.schema([(name, pa.string()) for name in names])
    values = [_values(file, texts) for file in files]
    return pa.schema([(name, _kind([each.get(name) for each in values])) for name in names])


def _names(file: InputFile) -> list[str]:
    folders = file.relative_path.split("/")[:-1]
    pairs = (folder.partition("=") for folder in folders)
    return [*dict.fromkeys(name for name, equals, _ in pairs if name and equals)]


def _values(file: InputFile, schema: pa.Schema) -> Mapping[str, Any]:
    folders = file.relative_path.rpartition("/")[0]
    expression = ds.HivePartitioning(schema).parse(f"{folders}/")
    values: Mapping[str, Any] = ds.get_partition_keys(expression)
    return values


def _kind(values: Sequence[str | None]) -> pa.DataType:
    try:
        pa.array(values, pa.string()).cast(pa.int32())
    except pa.ArrowInvalid:
        return pa.string()
    return pa.int32()


@dataclass(frozen=True)
class Source:
    """Files with the same columns.

    folder_columns: the columns that folders name. skip_damaged: whether to leave out the rest of a
    damaged file, with a row that has the reason, instead of ending. schema: schema of the columns
    that are read; texts and paths are strings.
    """

    files: list[InputFile]
    columns: Columns
    folder_columns: pa.Schema
    skip_damaged: bool
    schema: pa.Schema

    @classmethod
    def open(cls, files: list[InputFile], columns: Columns, skip_damaged: bool = False) -> "Source":
        """Take the columns of the first file with rows. Raises BulkError if others differ."""
        source = cls(files, columns, _folder_columns(files), skip_damaged, pa.schema([]))
        schemas = ((file, source._schema(file)) for file in files)
        first, schema = next(((file, schema) for file, schema in schemas if schema), (None, None))
        if first is None or schema is None:
            raise BulkError(f"{files[0].address} has no rows; give files with rows")
        for file in files:
            if not _is_lines(file) and (other := source._schema(file)) != schema:
                fields = [str(field) for field in other or () if field not in [*schema]]
                differences = ", ".join(fields) or "fewer columns"
                raise BulkError(
                    f"the columns of {file.address} differ from those of {first.address}: "
                    f"{differences}"
                )
        return replace(source, schema=schema)

    def batches(self) -> Iterator[tuple[Rows, float]]:
        """Yield batches of rows, each with the share of all bytes that has been read.

        Raises BulkError for a file that cannot be read, or only in part.
        """
        total = sum(file.size for file in self.files) or 1
        before = 0
        for file in self.files:
            read = self._lines(file) if _is_lines(file) else self._arrow(file)
            for rows, done in read:
                yield rows, (before + done * file.size) / total
            before += file.size

    def _lines(self, file: InputFile) -> Iterator[tuple[Rows, float]]:
        with open_lines(file) as lines:
            records = self._with_folder_values(self._records(file, lines), file)
            if self.columns.keep is None:
                records = warn_of_late_columns(records, self.schema.names, file.address)
            for rows in record_batches(
                records, self.schema, self.columns.inputs, file.address, lines
            ):
                yield rows, lines.share_read

    def _records(self, file: InputFile, lines: LineReader) -> Iterator[Record]:
        parse = _parser(file)
        try:
            yield from parse(lines)
        except OSError as error:
            number = lines.lines_read + 1
            yield number, None, self._damage(f"{file.address}, line {number}", error)
        except BulkError as error:
            raise BulkError(f"{file.address}: {error}") from None

    def _with_folder_values(self, records: Iterator[Record], file: InputFile) -> Iterator[Record]:
        folder_values = _values(file, self.folder_columns)
        for number, values, reason in records:
            yield number, None if values is None else {**folder_values, **values}, reason

    def _arrow(self, file: InputFile) -> Iterator[tuple[Rows, float]]:
        with open_arrow(file, uncompressed_suffix(file.path)) as reader:
            folder_values = _values(file, self.folder_columns)
            missing = {n: v for n, v in folder_values.items() if n not in reader.schema.names}
            missing = {n: v for n, v in missing.items() if n in self.schema.names}
            origin = self.schema, self.columns.inputs, file.address, missing
            position = 0
            try:
                for rows, done in arrow_batches(reader, *origin):
                    position += len(rows)
                    yield rows, done
            except (pa.ArrowException, OSError) as error:
                reason = self._damage(f"{file.address}, row {position}", error)
                yield row_without_values(self.schema, file.address, position, reason), 1.0

    def _damage(self, place: str, error: Exception) -> str:
        """Return the reason for the row from which a file is damaged; raises BulkError to end."""
        problem = str(error).splitlines()[0]
        if not self.skip_damaged:
            raise BulkError(
                f"{place}: the file is damaged from here on ({problem}); replace it, or leave out "
                "the rest of it with --skip-damaged"
            )
        if self.schema.names:  # not while the columns are inferred from the first lines
            log.warning("%s: the file is damaged (%s); the rest of it is left out", place, problem)
        return f"the file is damaged from here on: {problem}"

    def _schema(self, file: InputFile) -> pa.Schema | None:
        """Return the columns of a file that are read; None for a file of lines without rows."""
        if _is_lines(file):
            with open_lines(file) as lines:
                schema = infer_schema(self._records(file, lines))
            if not schema.names:
                return None
        else:
            with open_arrow(file, uncompressed_suffix(file.path)) as reader:
                schema = reader.schema
        for name in _names(file):
            if name not in schema.names:
                schema = schema.append(self.folder_columns.field(name))
        return _chosen(schema, file, self.columns)


def _chosen(schema: pa.Schema, file: InputFile, columns: Columns) -> pa.Schema:
    """Return the columns that are read, with the types in which they are read."""
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
