"""The files of a part: rows and vectors as Parquet or .npy, and the rows without a vector."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from embedwell.batches.json_lines import escape_line_ends
from embedwell.bulk.columns import EMBEDDING
from embedwell_models.vectors import Floats

PARQUET, NPY = "parquet", "npy"


def part_files(
    part: int, format: str, rows: pa.Table, vectors: Floats, errors: Sequence[Mapping[str, Any]]
) -> dict[str, bytes | pa.Buffer]:
    """Return the content of each file of a part: the same bytes for the same rows.

    rows, vectors: n of each. A part in .npy has its rows in a separate Parquet file.
    """
    files: dict[str, bytes | pa.Buffer] = {}
    if errors:
        lines = (escape_line_ends(orjson.dumps(error, default=str)) + b"\n" for error in errors)
        files[f"_errors-{part:06}.jsonl"] = b"".join(lines)
    if format == NPY:
        array = io.BytesIO()
        np.save(array, vectors)
        files[f"part-{part:06}.npy"] = array.getvalue()
    else:
        rows = rows.append_column(EMBEDDING, vector_column(vectors))
    files[f"part-{part:06}.parquet"] = _parquet(rows)
    return files


def vector_column(vectors: Floats) -> pa.Array:
    """Convert vectors (n, dim) to lists of a fixed size."""
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])


def _parquet(rows: pa.Table) -> pa.Buffer:
    # Dictionaries, statistics and compression gain nothing with vectors.
    others = [name for name in rows.column_names if name != EMBEDDING]
    codecs = dict.fromkeys(others, "zstd")
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        compression=codecs | {f"{EMBEDDING}.list.element": "none"},
        use_dictionary=others,
        write_statistics=others,
    )
    return sink.getvalue()
