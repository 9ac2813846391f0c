"""The results of an unfinished part, which an interrupted run keeps for the one that resumes it."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from embedwell_bulk.files import OutputFolder
from embedwell_bulk.parts import vector_column
from embedwell_bulk.text_encoder import Finished, TokenVectors, Vectors

_RUN = b"run"  # metadata: the checksum of what decides the vectors


def file_name(part: int) -> str:
    """Return the name of the file of a part, which readers of Parquet folders ignore."""
    return f"_unfinished-{part:06}.arrow"


def write(folder: OutputFolder, part: int, finished: Finished, run: Mapping[str, Any]) -> None:
    """Write results of a part. Raises BulkError. run: the identity of the manifest."""
    reasons = [finished.rejected.get(place) for place in range(len(finished.rows))]
    columns = {
        "row": pa.array(finished.rows, pa.int32()),
        "reason": pa.array(reasons, pa.string()),
        "vector": vector_column(finished.vectors),
    }
    table = pa.table(columns).replace_schema_metadata({_RUN: _checksum(run)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    folder.write(file_name(part), sink.getvalue())


def read(folder: OutputFolder, part: int, run: Mapping[str, Any]) -> Finished | None:
    """Read the results of a part; None if there are none of this run. Raises BulkError."""
    if (content := folder.read(file_name(part))) is None:
        return None
    try:
        table = pa.ipc.open_file(content).read_all()
    except pa.ArrowInvalid:
        return None
    if (table.schema.metadata or {}).get(_RUN) != _checksum(run):
        return None
    reasons = enumerate(table["reason"].to_pylist())
    rejected = {place: reason for place, reason in reasons if reason is not None}
    return Finished(table["row"].to_pylist(), _vectors(table["vector"]), rejected)


def _vectors(column: pa.ChunkedArray) -> Vectors:
    array = column.combine_chunks()
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        return np.array(array.flatten()).reshape(-1, size)
    size = array.type.value_type.list_size
    rows = np.array(array.flatten().flatten()).reshape(-1, size)
    lengths = array.value_lengths().to_numpy()
    return TokenVectors(np.split(rows, np.cumsum(lengths)[:-1]), size)


def _checksum(run: Mapping[str, Any]) -> bytes:
    content = orjson.dumps(run, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest().encode()
