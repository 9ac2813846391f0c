"""Read Parquet files, and Arrow files and streams (Feather), in batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from embedwell_bulk import BulkError
from embedwell_bulk.columns import (
    Columns,
    Rows,
    bytes_problems,
    has_bytes,
    has_value,
    text_problems,
    with_origin,
)
from embedwell_bulk.files import InputFile

_BATCH_ROWS = 1024
_BUFFER_BYTES = 8 << 20  # bytes of a request to an object store
_MAGIC = b"ARROW1"  # first bytes of an Arrow file that is not a stream
_IS_TEXT = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_null,
)


class ArrowReader(Protocol):
    """An open file of columns."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield batches of columns, each with the share of the file that has been read."""


class ParquetReader:
    """A Parquet file, read in batches of rows."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._file = pq.ParquetFile(source, buffer_size=_BUFFER_BYTES)
        self.schema = self._file.schema_arrow

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        done, total = 0, self._file.metadata.num_rows
        for batch in self._file.iter_batches(_BATCH_ROWS, columns=[*columns]):
            done += len(batch)
            yield batch.select(columns), done / total


class IpcReader:
    """An Arrow file or stream."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._source, self._size = source, source.size()
        self._is_file = source.read(len(_MAGIC)) == _MAGIC
        source.seek(0)
        self._reader = (pa.ipc.open_file if self._is_file else pa.ipc.open_stream)(source)
        self.schema = self._reader.schema

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        for batch, done in self._read():
            selected = batch.select(columns)
            for start in range(0, len(batch), _BATCH_ROWS):
                yield selected.slice(start, _BATCH_ROWS), done

    def _read(self) -> Iterator[tuple[pa.RecordBatch, float]]:
        if not self._is_file:
            yield from ((batch, self._source.tell() / self._size) for batch in self._reader)
            return
        total = self._reader.num_record_batches
        yield from ((self._reader.get_batch(i), (i + 1) / total) for i in range(total))


_READERS: dict[str, Callable[[pa.NativeFile], ArrowReader]] = {
    ".parquet": ParquetReader,
    ".pq": ParquetReader,
    ".arrow": IpcReader,
    ".arrows": IpcReader,
    ".feather": IpcReader,
    ".ipc": IpcReader,
}
ARROW_SUFFIXES = tuple(_READERS)


@contextmanager
def open_arrow(file: InputFile, suffix: str) -> Iterator[ArrowReader]:
    """Open a file by its suffix. Raises BulkError for a corrupt file."""
    with file.open() as source:
        try:
            reader = _READERS[suffix](source)
        except (pa.ArrowException, OSError) as error:
            raise BulkError(f"{file.address}: {error}") from error
        yield reader


def check_columns(schema: pa.Schema, columns: Columns, file: str) -> None:
    """Raise BulkError if an input has values other than texts, or bytes of images."""
    for name in columns.inputs:
        kind, of_images = schema.field(name).type, name == columns.image
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if any(is_text(kind) for is_text in _IS_TEXT) or (of_images and has_bytes(kind)):
            continue
        wanted, option = ("images or paths", "image") if of_images else ("text", "column")
        raise BulkError(
            f"{file}: the column {name!r} has the type {kind}, not {wanted}; choose another with "
            f"--{option}"
        )


def arrow_batches(
    reader: ArrowReader,
    schema: pa.Schema,
    inputs: Sequence[str],
    file: str,
    folder_values: Mapping[str, Any],
) -> Iterator[tuple[Rows, float]]:
    """Yield batches of a schema's columns, each with the share of the file that has been read.

    Raises ArrowException and OSError for a damaged file.

    inputs: the columns that are embedded. folder_values: values of the columns that the file lacks
    and its folders name.
    """
    position = 0
    own = [name for name in schema.names if name not in folder_values]
    for batch, done in reader.batches(own):
        columns = {name: batch[name] for name in own}
        for name, value in folder_values.items():
            columns[name] = pa.repeat(pa.scalar(value, schema.field(name).type), len(batch))
        arrays = [columns[name] for name in schema.names]
        values = pa.RecordBatch.from_arrays(arrays, names=schema.names).cast(schema)
        reasons = _problems(values, inputs)
        positions = range(position, position := position + len(batch))
        yield with_origin(values, file, positions, reasons), done


def _problems(values: pa.RecordBatch, inputs: Sequence[str]) -> pa.StringArray:
    """Return the problem of each row (n,); null for none, and for a row that lacks one of two."""
    problems, present = list[pa.Array](), list[pa.Array]()
    for name in inputs:
        column = values[name]
        of_column = bytes_problems if has_bytes(column.type) else text_problems
        problems.append(of_column(column, name))
        present.append(has_value(column))
    if len(inputs) == 1:
        return problems[0]
    none_present = pc.invert(pc.or_(*present))
    of_present = [pc.if_else(has, each, None) for has, each in zip(present, problems, strict=True)]
    joined = pc.binary_join_element_wise(*problems, " and ")
    return pc.if_else(none_present, joined, pc.coalesce(*of_present))
