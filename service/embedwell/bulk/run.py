"""Embed an input, part by part, into a folder; a part is written while the next is embedded."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from embedwell.bulk.columns import Columns
from embedwell.bulk.files import OutputFolder, find_inputs
from embedwell.bulk.manifest import Manifest, describe_inputs, read_manifest
from embedwell.bulk.parts import PARQUET, PartEmbedding, cut_into_parts
from embedwell.bulk.progress import EmbedProgress
from embedwell.bulk.source import Source
from embedwell.bulk.text_encoder import Encoded, TextEncoder
from embedwell_models.output_names import MULTI

PART_ROWS, PART_ROWS_OF_TOKENS = 16384, 512


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
        return f"_manifest{suffix}.json"  # readers of Parquet folders ignore names with _ and .

    def has(self, part: int) -> bool:
        return part % self.count == self.number - 1


@dataclass(frozen=True)
class BulkJob:
    """A bulk run: the files to embed, and the folder to write.

    inputs, output: paths or addresses.
    part_rows: maximum rows of a part; None for PART_ROWS, or PART_ROWS_OF_TOKENS for vectors of
        tokens.
    skip_damaged: see Source.
    """

    inputs: Sequence[str]
    output: str
    columns: Columns
    format: str = PARQUET
    part_rows: int | None = None
    shard: Shard = field(default_factory=Shard)
    resume: bool = False
    skip_damaged: bool = False


Load = Callable[[str | None], TextEncoder]
"""Loads a model in a precision; None for the precision of its options."""


def run(job: BulkJob, load: Load, progress: EmbedProgress) -> Mapping[str, int]:
    """Embed the input, and return the counts of the manifest. Raises BulkError.

    load: called after all other checks, with the precision of a run that is resumed.
    """
    files = find_inputs(job.inputs)
    source = Source.open(files, job.columns, job.skip_damaged)
    folder = OutputFolder.open(job.output)
    stored = read_manifest(folder, job.shard.manifest_name, job.resume)
    encoder = load(stored["run"]["precision"] if stored else None)
    of_tokens = encoder.description.get("output") == MULTI
    part_rows = job.part_rows or (PART_ROWS_OF_TOKENS if of_tokens else PART_ROWS)
    folder_columns = source.partitions.schema.names
    identity = {
        **encoder.description,
        "inputs": describe_inputs(files),
        "columns": job.columns.described(),
        "format": job.format,
        "part_rows": part_rows,
        "shard": str(job.shard),
        **({"folder_columns": folder_columns} if folder_columns else {}),
        **({"skip_damaged": True} if job.skip_damaged else {}),
    }
    manifest = Manifest.begin(folder, job.shard.manifest_name, identity, stored)
    parts = cut_into_parts(source.batches(), part_rows)
    complete = frozenset(manifest.parts)
    needed = (part for part in parts if job.shard.has(part.index) and part.index not in complete)
    embeddings = (PartEmbedding.begin(part, job.columns, encoder, progress) for part in needed)

    def write(embedding: PartEmbedding, encoded: Encoded) -> None:
        part = embedding.embedded(encoded)
        manifest.complete_part(folder, part.index, part.counts, part.files(job.format))

    write_behind(embeddings, write)
    progress.end()
    return manifest.write(folder, complete=True)


class Embedding(Protocol):
    """A part that is being embedded."""

    def done(self) -> bool:
        """Whether `encoded` would not wait."""

    def encoded(self) -> Encoded:
        """Wait for the vectors."""


E = TypeVar("E", bound=Embedding)


def write_behind(embeddings: Iterable[E], write: Callable[[E, Encoded], None]) -> None:
    """Write parts in order, in a thread; at most two are begun and not written.

    embeddings: each is begun when it is requested.
    """
    begun: deque[E] = deque()
    with ThreadPoolExecutor(1) as thread:
        written = thread.submit(lambda: None)

        def write_first() -> None:
            nonlocal written
            encoded = begun[0].encoded()
            written.result()
            written = thread.submit(write, begun.popleft(), encoded)

        for embedding in embeddings:
            begun.append(embedding)
            while len(begun) == 2 or (begun and begun[0].done()):
                write_first()
            if begun:
                written.result()
        while begun:
            write_first()
        written.result()
