"""Parts of an input, the same ones in every run: their embedding, and the files of each."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from embedwell.line_ends import escape_line_ends
from embedwell_bulk.columns import (
    EMBEDDING,
    FILE,
    POSITION,
    REASON,
    ROW,
    Columns,
    Rows,
    has_bytes,
    input_columns,
    read_inputs,
)
from embedwell_bulk.progress import EmbedProgress, WindowProgress
from embedwell_bulk.text_encoder import (
    Encoded,
    Finished,
    TextEncoder,
    TokenVectors,
    Vectors,
    Window,
)

PARQUET, NPY = "parquet", "npy"
_LIST = ".list.element"  # in the path of a column
MAX_PART_BYTES = 256 << 20  # bytes of the input's columns


@dataclass(frozen=True)
class Part:
    """Rows of the input that become one part of the output.

    first_row: number of the first row in the whole input, from 0.
    before, after: share of the input that has been read before and after it.
    """

    index: int
    first_row: int
    rows: pa.Table
    before: float
    after: float


def cut_into_parts(
    batches: Iterable[tuple[Rows, float]], max_rows: int, max_bytes: int = MAX_PART_BYTES
) -> Iterator[Part]:
    """Yield parts of at most max_rows rows, and of about max_bytes.

    batches: batches, each with the share of the input that has been read with it.
    """
    index = first_row = 0
    before = done = 0.0
    waiting: list[Rows] = []
    count = size = 0
    for rows, done in batches:
        while len(rows):
            taken = rows.slice(0, max_rows - count)
            rows = rows.slice(len(taken))  # noqa: PLW2901 - what is left of it
            waiting.append(taken)
            count, size = count + len(taken), size + taken.nbytes
            if count == max_rows or size >= max_bytes:
                yield Part(index, first_row, pa.Table.from_batches(waiting), before, done)
                index, first_row, before = index + 1, first_row + count, done
                waiting, count, size = [], 0, 0
    if waiting:
        yield Part(index, first_row, pa.Table.from_batches(waiting), before, done)


@dataclass(frozen=True)
class EmbeddedPart:
    """A part with n rows, their vectors, the rows without a vector, and counts."""

    index: int
    rows: pa.Table
    vectors: Vectors
    errors: list[dict[str, Any]]
    counts: Mapping[str, int]

    def files(self, format: str) -> dict[str, bytes | pa.Buffer]:
        """Return the content of each file of the part: the same bytes for the same rows.

        A part in .npy has its rows in a separate Parquet file, and the numbers of vectors of each
        row, if these differ, in another .npy.
        """
        files: dict[str, bytes | pa.Buffer] = {}
        rows, vectors, number = self.rows, self.vectors, f"{self.index:06}"
        if self.errors:
            lines = (escape_line_ends(orjson.dumps(each, default=str)) for each in self.errors)
            files[f"_errors-{number}.jsonl"] = b"".join(line + b"\n" for line in lines)
        if format == NPY:
            if isinstance(vectors, TokenVectors):
                files[f"_lengths-{number}.npy"] = _npy(vectors.lengths)
                vectors = vectors.rows
            files[f"part-{number}.npy"] = _npy(vectors)
        else:
            rows = rows.append_column(EMBEDDING, vector_column(vectors))
        files[f"part-{number}.parquet"] = _parquet(rows)
        return files


@dataclass(frozen=True)
class PartEmbedding:
    """A part whose texts, or images, are being embedded.

    texts: indices of the rows that have one.
    reasons: why a row has none; None for the others.
    """

    part: Part
    columns: Columns
    texts: Sequence[int]
    reasons: list[str | None]
    window: Window
    progress: WindowProgress

    @classmethod
    def of(
        cls, part: Part, columns: Columns, progress: EmbedProgress, finished: Finished | None
    ) -> "PartEmbedding":
        """Read the texts of a part. finished: results of an earlier run."""
        reasons = _reasons(part.rows, columns.id)
        texts = [index for index, reason in enumerate(reasons) if reason is None]
        indices = pa.array(texts, pa.int64())
        inputs = read_inputs(
            input_columns(part.rows).take(indices), part.rows[FILE].take(indices), columns
        )
        window = Window.of(inputs, finished)
        window_progress = WindowProgress(progress, window.texts_left, part.before, part.after)
        return cls(part, columns, texts, reasons, window, window_progress)

    def begin(self, encoder: TextEncoder) -> None:
        """Like TextEncoder.begin. Raises BulkError."""
        self.progress.progress.begin(self.part.before)
        self.window.begin(encoder, self.progress.advance)

    def done(self) -> bool:
        """Whether `encoded` would not wait."""
        return self.window.done()

    def encoded(self) -> Encoded:
        """Wait for the vectors. Raises BulkError."""
        encoded = self.window.result()
        self.progress.end()
        return encoded

    def embedded(self, encoded: Encoded) -> EmbeddedPart:
        """Combine the vectors with the rows that have one."""
        values, reasons = input_columns(self.part.rows), [*self.reasons]
        for index, reason in encoded.rejected.items():
            reasons[self.texts[index]] = reason
        with_vector = [index for index, reason in enumerate(reasons) if reason is None]
        has_vector = [index not in encoded.rejected for index in range(len(self.texts))]
        indices = pa.array(with_vector, pa.int64())
        written = self.columns.written(values.column_names)
        image = self.columns.image
        if self.columns.keep is None and image and has_bytes(values.schema.field(image).type):
            written.remove(image)
        rows = values.select(written).take(indices)
        if self.columns.id is None:
            rows = rows.add_column(0, ROW, pc.add(indices, self.part.first_row))
        counts = {
            "rows": len(reasons),
            "embedded": len(with_vector),
            "errors": len(reasons) - len(with_vector),
            "computed": encoded.computed,
        }
        errors = _errors(self.part, self.columns.id, reasons)
        return EmbeddedPart(self.part.index, rows, encoded.vectors[has_vector], errors, counts)


def _reasons(rows: pa.Table, id: str | None) -> list[str | None]:
    reasons: list[str | None] = rows[REASON].to_pylist()
    if id is not None:
        for index in np.flatnonzero(input_columns(rows)[id].is_null()).tolist():
            reasons[index] = reasons[index] or f"{id} is null"
    return reasons


def _errors(part: Part, id: str | None, reasons: Sequence[str | None]) -> list[dict[str, Any]]:
    errors = []
    for index, reason in enumerate(reasons):
        if reason is not None:
            row = part.rows.slice(index, 1)
            error = {
                "file": row[FILE][0].as_py(),
                "position": row[POSITION][0].as_py(),
                ROW: part.first_row + index,
            }
            if id is not None:
                error["id"] = input_columns(row)[id][0].as_py()
            errors.append({**error, "reason": reason})
    return errors


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
