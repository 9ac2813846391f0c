"""Inputs and runs of the tests."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from embedwell_bulk.columns import EMBEDDING, Columns
from embedwell_bulk.progress import EmbedProgress
from embedwell_bulk.run import BulkJob, run
from embedwell_bulk.text_encoder import TextEncoder
from embedwell_models.vectors import Floats

PROSE = (Path(__file__).parents[3] / "LICENSE").read_text(encoding="utf-8").lower().split()


def prose(count: int) -> list[str]:
    """Texts of 1 to 12 words, of which some are equal."""
    return [" ".join(PROSE[i % 700 : i % 700 + 1 + i % 12]) for i in range(count)]


def write_parquet(path: Path, count: int) -> Path:
    """A table of texts with an id and a list."""
    table = {"id": range(count), "text": prose(count), "tags": [["a", "b"]] * count}
    pq.write_table(pa.table(table), path)
    return path


def run_job(
    encoder: TextEncoder, inputs: Path | str, output: Path | str, **options: Any
) -> dict[str, int]:
    """Run a job: -> its counts."""
    columns = options.pop("columns", Columns(id="id"))
    progress = EmbedProgress(options.pop("stream", io.StringIO()))
    job = BulkJob([str(inputs)], str(output), columns, **options)
    return dict(run(job, lambda _: encoder, progress))


def read_output(output: Path) -> pa.Table:
    """Read all parts of a folder."""
    return pq.read_table(output)


def vectors_of(table: pa.Table) -> Floats:
    """The vectors (B, dim) of an output."""
    flat = table[EMBEDDING].combine_chunks().flatten()
    vectors: Floats = flat.to_numpy().reshape(-1, table.schema.field(EMBEDDING).type.list_size)
    return vectors


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
