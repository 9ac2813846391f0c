"""The files of a part: rows and vectors as Parquet or .npy, and the rows without a vector."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from embedwell.batches.json_lines import escape_line_ends
from embedwell.bulk.columns import EMBEDDING
from embedwell.bulk.token_vectors import TokenVectors, Vectors

PARQUET, NPY = "parquet", "npy"
_LIST = ".list.element"  # in the path of a column


def part_files(
    part: int, format: str, rows: pa.Table, vectors: Vectors, errors: Sequence[Mapping[str, Any]]
) -> dict[str, bytes | pa.Buffer]:
    """Return the content of each file of a part: the same bytes for the same rows.

    rows, vectors: n of each. A part in .npy has its rows in a separate Parquet file, and the
    numbers of vectors of each row, if these differ, in another .npy.
    """
    files: dict[str, bytes | pa.Buffer] = {}
    if errors:
        lines = (escape_line_ends(orjson.dumps(error, default=str)) + b"\n" for error in errors)
        files[f"_errors-{part:06}.jsonl"] = b"".join(lines)
    if format == NPY:
        if isinstance(vectors, TokenVectors):
            files[f"_lengths-{part:06}.npy"] = _npy(vectors.lengths)
            vectors = vectors.rows
        files[f"part-{part:06}.npy"] = _npy(vectors)
    else:
        rows = rows.append_column(EMBEDDING, vector_column(vectors))
    files[f"part-{part:06}.parquet"] = _parquet(rows)
    return files


def _npy(array: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def vector_column(vectors: Vectors) -> pa.Array:
    """Convert vectors to lists of a fixed size, and vectors of tokens to lists of these."""
    if isinstance(vectors, TokenVectors):
        offsets = np.concatenate([[0], np.cumsum(vectors.lengths)])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), vector_column(vectors.rows))
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])


def _parquet(rows: pa.Table) -> pa.Buffer:
    # Dictionaries, statistics and compression gain nothing with vectors.
    others = [name for name in rows.column_names if name != EMBEDDING]
    codecs = dict.fromkeys(others, "zstd")
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        compression=codecs | {f"{EMBEDDING}{_LIST * depth}": "none" for depth in (1, 2)},
        use_dictionary=others,
        write_statistics=others,
    )
    return sink.getvalue()
