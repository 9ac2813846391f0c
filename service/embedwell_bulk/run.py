"""Embed an input, part by part, into a folder; a part is written while the next is embedded."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from embedwell_bulk import BulkError, unfinished
from embedwell_bulk.columns import Columns
from embedwell_bulk.files import OutputFolder, find_inputs
from embedwell_bulk.manifest import Manifest, describe_inputs, read_manifest
from embedwell_bulk.parts import PARQUET, Part, PartEmbedding, cut_into_parts
from embedwell_bulk.progress import EmbedProgress, count
from embedwell_bulk.source import Source
from embedwell_bulk.text_encoder import Encoded, TextEncoder, join
from embedwell_models.outputs.names import MULTI

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
    """Embed the input, and return the counts of the manifest.

    At an exception, also that of a signal, the results of unfinished parts are kept.

    Raises BulkError.

    load: called after all other checks, with the precision of a run that is resumed.
    """
    files = find_inputs(job.inputs)
    source = Source.open(files, job.columns, job.skip_damaged)
    folder = OutputFolder.open(job.output)
    stored = read_manifest(folder, job.shard.manifest_name, job.resume)
    encoder = load(stored["run"]["precision"] if stored else None)
    of_tokens = encoder.description.get("output") == MULTI
    part_rows = job.part_rows or (PART_ROWS_OF_TOKENS if of_tokens else PART_ROWS)
    folder_columns = source.folder_columns.names
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
    begun = _BegunParts(job, folder, manifest, encoder, progress)
    try:
        write_behind(map(begun.begin, needed), begun.complete)
    except BaseException:
        if kept := begun.keep():
            progress.interrupt(kept)
        raise
    progress.end()
    return manifest.write(folder, complete=True)


class _BegunParts:
    """The parts that are begun and not yet written; see unfinished.py for their files."""

    def __init__(
        self,
        job: BulkJob,
        folder: OutputFolder,
        manifest: Manifest,
        encoder: TextEncoder,
        progress: EmbedProgress,
    ) -> None:
        self._job, self._folder, self._manifest = job, folder, manifest
        self._encoder, self._progress = encoder, progress
        self._files = {name for name in folder.sizes() if name.startswith("_unfinished-")}
        self._parts: dict[int, PartEmbedding] = {}

    def begin(self, part: Part) -> PartEmbedding:
        """Begin to embed a part, with the results of an earlier run. Raises BulkError."""
        finished = None
        if unfinished.file_name(part.index) in self._files:
            finished = unfinished.read(self._folder, part.index, self._manifest.identity)
        embedding = PartEmbedding.of(part, self._job.columns, self._progress, finished)
        self._parts[part.index] = embedding
        embedding.begin(self._encoder)
        return embedding

    def complete(self, embedding: PartEmbedding, encoded: Encoded) -> None:
        """Write a part that is embedded. Raises BulkError."""
        part = embedding.embedded(encoded)
        files = part.files(self._job.format)
        self._manifest.complete_part(self._folder, part.index, part.counts, files)
        del self._parts[part.index]
        if (name := unfinished.file_name(part.index)) in self._files:
            self._folder.delete(name)

    def keep(self) -> str:
        """Write the results that there are, and say what a resumed run does not compute again.

        Returns "" if there is nothing.
        """
        texts, problem = 0, ""
        for index, embedding in self._parts.items():
            results = [each for each in embedding.window.results() if each.rows]
            try:
                if results:
                    unfinished.write(self._folder, index, join(results), self._manifest.identity)
            except BulkError as error:
                problem = f" Texts of unfinished parts are lost: {error}"
            else:
                texts += sum(len(each.rows) for each in results)
        parts = self._manifest.parts
        rows = sum(part["rows"] for part in parts.values())
        kept = [f"{count(len(parts), 'part')} with {count(rows, 'row')}"] * bool(parts)
        kept += [f"{count(texts, self._progress.unit)} of unfinished parts"] * bool(texts)
        if not kept:
            return problem
        return (
            f"Stopped. {self._folder.address} has {' and '.join(kept)}. To continue, run the same "
            f"command with --resume.{problem}"
        )


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
