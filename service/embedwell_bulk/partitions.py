"""Columns that the folders of a file name, as Hive and Spark write them: lang=en/part-0.parquet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from embedwell_bulk.files import InputFile


@dataclass(frozen=True)
class PartitionColumns:
    """The columns of all folders of an input: int32 if each value is such a number, else strings.

    A file whose own columns have one of these names has its own values.
    """

    schema: pa.Schema

    @classmethod
    def of(cls, files: Sequence[InputFile]) -> "PartitionColumns":
        """Infer the types from the folders of all files, as pyarrow does."""
        names = dict.fromkeys(name for file in files for name in _names(file))
        texts = pa.schema([(name, pa.string()) for name in names])
        values = [_values(file, texts) for file in files]
        kinds = {name: _kind([each.get(name) for each in values]) for name in names}
        return cls(pa.schema([*kinds.items()]))

    def fields(self, file: InputFile) -> list[pa.Field]:
        """Return the columns that the folders of a file name."""
        return [self.schema.field(name) for name in _names(file)]

    def values(self, file: InputFile) -> Mapping[str, Any]:
        """Return the values of a file by column."""
        return _values(file, self.schema)


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
