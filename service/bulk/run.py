"""Embed an input part by part into a folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from models.vectors import Floats
from service.bulk.columns import ROW, Columns
from service.bulk.files import OutputFolder, find_inputs
from service.bulk.manifest import Manifest, describe_inputs, read_manifest
from service.bulk.origin import FILE, POSITION, REASON, input_columns
from service.bulk.part_files import PARQUET, part_files
from service.bulk.parts import Part, cut_into_parts
from service.bulk.progress import Progress, WindowProgress
from service.bulk.source import Source
from service.bulk.text_encoder import Encoded, TextEncoder, embed_window

PART_ROWS = 16384


@dataclass(frozen=True)
class Shard:
    """The share of one of several machines: every count-th part, from the number-th on (from 1)."""

    number: int = 1
    count: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def manifest_name(self) -> str:
        suffix = "" if self.count == 1 else f"-{self.number}-of-{self.count}"
        return f"_manifest{suffix}.json"  # readers of a folder of Parquet leave out _ and .

    def has(self, part: int) -> bool:
        return part % self.count == self.number - 1


@dataclass(frozen=True)
class BulkJob:
    """A bulk run: the files to embed, and the folder to write.

    inputs, output: paths or addresses. part_rows: most rows of a part.
    """

    inputs: Sequence[str]
    output: str
    columns: Columns
    format: str = PARQUET
    part_rows: int = PART_ROWS
    shard: Shard = field(default_factory=Shard)
    resume: bool = False


Load = Callable[[str | None], TextEncoder]
"""Returns a model in a precision; None for that of its options."""


def run(job: BulkJob, load: Load, progress: Progress) -> Mapping[str, int]:
    """Embed the input: -> the counts of the manifest.

    load: called when all else has been checked, with the precision of a run that is resumed. Raises
    BulkError.
    """
    files = find_inputs(job.inputs)
    source = Source.open(files, job.columns)
    folder = OutputFolder.open(job.output)
    stored = read_manifest(folder, job.shard.manifest_name, job.resume)
    encoder = load(stored["run"]["precision"] if stored else None)
    identity = {
        **encoder.description,
        "inputs": describe_inputs(files),
        "columns": {"text": job.columns.text, "id": job.columns.id, "keep": job.columns.keep},
        "format": job.format,
        "part_rows": job.part_rows,
        "shard": str(job.shard),
    }
    manifest = Manifest.begin(folder, job.shard.manifest_name, identity, stored)
    for part in cut_into_parts(source.batches(), job.part_rows):
        if job.shard.has(part.index) and part.index not in manifest.parts:
            embedded = _embed(part, job.columns, encoder, progress)
            content = part_files(
                part.index, job.format, embedded.rows, embedded.vectors, embedded.errors
            )
            manifest.complete_part(folder, part.index, embedded.counts, content)
    progress.end()
    return manifest.write(folder, complete=True)


@dataclass(frozen=True)
class _Embedded:
    """n rows, their vectors (n, dim), the rows that have none, and counts."""

    rows: pa.Table
    vectors: Floats
    errors: list[dict[str, Any]]
    counts: Mapping[str, int]


def _embed(part: Part, columns: Columns, encoder: TextEncoder, progress: Progress) -> _Embedded:
    values, reasons = input_columns(part.rows), _reasons(part.rows, columns.id)
    texts = [index for index, reason in enumerate(reasons) if reason is None]
    column = values[columns.text].take(pa.array(texts, pa.int64()))
    encoded = _encode(part, column.to_pylist(), encoder, progress)
    for index, reason in encoded.rejected.items():
        reasons[texts[index]] = reason
    with_vector = [index for index, reason in enumerate(reasons) if reason is None]
    has_vector = [index not in encoded.rejected for index in range(len(texts))]
    indices = pa.array(with_vector, pa.int64())
    rows = values.select(columns.written(values.column_names)).take(indices)
    if columns.id is None:
        rows = rows.add_column(0, ROW, pc.add(indices, part.first_row))
    counts = {
        "rows": len(reasons),
        "embedded": len(with_vector),
        "errors": len(reasons) - len(with_vector),
        "computed": encoded.computed,
    }
    errors = _errors(part, columns.id, reasons)
    return _Embedded(rows, encoded.vectors[has_vector], errors, counts)


def _encode(part: Part, texts: list[str], encoder: TextEncoder, progress: Progress) -> Encoded:
    progress.begin(part.before)
    window = WindowProgress(progress, len(texts), part.before, part.after)
    encoded = embed_window(encoder, texts, window.advance)
    window.end()
    return encoded


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
