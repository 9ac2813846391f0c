"""Unfinished jobs, and the vectors that are computed so far."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from embedwell.engine.wire.engine_sockets import HttpProcessConnection
from embedwell.engine.wire.messages import Failure, Job, Result
from embedwell.engine.worker.forward import BatchTexts, BatchVectors, TextFailure
from embedwell.engine.worker.scheduler import JobTexts, Scheduler
from embedwell_models.encoder.batch import FlatRows

Key = tuple[HttpProcessConnection, int]  # key of a job: its connection, and its number there
ResultsByConnection = Mapping[HttpProcessConnection, Sequence[tuple[int, Result | Failure]]]


@dataclass(slots=True, eq=False)
class OpenJob:
    """A job without a result.

    removed: whether it was cancelled, or has its result.
    started_at: time.perf_counter at the start of its first batch.
    parts: the vectors of its texts in each batch, by the first text.
    """

    connection: HttpProcessConnection
    number: int
    job: Job
    removed: bool = False
    started_at: float = inf
    parts: dict[int, BatchVectors] | None = None
    _computed: int = 0

    def collect(self, part: "JobPart", vectors: BatchVectors) -> BatchVectors | None:
        """Store the vectors of some texts; return those of all texts if they are complete."""
        count, texts = part.stop - part.start, len(self.job.texts_ids)
        if count == texts:  # most jobs are in one batch
            return vectors
        self.parts = self.parts or {}
        self.parts[part.start] = vectors
        self._computed += count
        if self._computed < texts:
            return None
        return BatchVectors.join([self.parts[start] for start in sorted(self.parts)])

    def result(self, vectors: BatchVectors, ended_at: float, rate: float) -> Result:
        """Return the result with the vectors of all texts."""
        queued = self.started_at - self.job.created_at
        computed = ended_at - self.started_at
        counts = vectors.row_counts if self.job.is_packed else ()
        return Result(vectors.rows, round(queued * 1e6), round(computed * 1e6), rate, counts)


JobPart = JobTexts[OpenJob]


class JobTable:
    """Accepts jobs, hands out their texts for forward passes, and collects the vectors."""

    def __init__(self) -> None:
        self._scheduler: Scheduler[OpenJob] = Scheduler()
        self._open_jobs: dict[Key, OpenJob] = {}

    def __len__(self) -> int:
        """Return the number of unfinished jobs."""
        return len(self._open_jobs)

    @property
    def nothing_waits(self) -> bool:
        """Whether no text waits; even without waiting tokens a text may wait."""
        return not self._scheduler

    @property
    def waiting_tokens(self) -> int:
        """Number of tokens of the texts that are in no batch yet."""
        return self._scheduler.tokens

    def add(self, key: Key, job: Job) -> None:
        """Queue the texts of a job."""
        self._open_jobs[key] = added = OpenJob(*key, job)
        # Texts with images have different numbers of tokens in different jobs.
        kind = (job.output, key) if job.exclusive else (job.output, job.image_tokens)
        self._scheduler.add(added, job.lengths, kind, job.size_class)

    def remove(self, key: Key) -> None:
        """Remove a job that is cancelled or done, if it is present."""
        removed = self._open_jobs.pop(key, None)
        if removed is not None:
            removed.removed = True
            self._scheduler.cancel(removed)

    def remove_connection(self, connection: HttpProcessConnection) -> None:
        """Remove the jobs of a closed connection."""
        for key in [key for key in self._open_jobs if key[0] is connection]:
            self.remove(key)

    def take_batch(self, max_tokens: int) -> list[JobPart]:
        """Take the texts of the next batch: at most `max_tokens`, or one longer text."""
        return self._scheduler.take_batch(max_tokens)

    def take_short_texts(self, max_tokens: int) -> list[JobPart]:
        """Take a batch of texts of at most `max_tokens` each; [] if only longer texts wait."""
        return self._scheduler.take_short_texts(max_tokens)

    def collect(
        self, parts: Sequence[JobPart], vectors: BatchVectors, started_at: float, rate: float
    ) -> ResultsByConnection:
        """Store the vectors of a batch; return the results of completed jobs, by connection.

        started_at: time.perf_counter at the start of its forward pass.
        rate: see Result.
        """
        results_by_connection: dict[HttpProcessConnection, list[tuple[int, Result | Failure]]] = {}
        now, counts = time.perf_counter(), [part.stop - part.start for part in parts]
        result: Result | Failure
        for part, own in zip(parts, vectors.split(counts), strict=True):
            job = part.job
            if job.removed:  # it was cancelled, or another of its texts failed
                continue
            job.started_at = min(job.started_at, started_at)
            if own.failures:
                result = _failure(own.failures, part.start)
            elif (complete := job.collect(part, own)) is not None:
                result = job.result(complete, now, rate)
            else:
                continue
            self.remove((job.connection, job.number))
            results_by_connection.setdefault(job.connection, []).append((job.number, result))
        return results_by_connection


def texts_of(parts: Sequence[JobPart]) -> BatchTexts:
    """Return the texts of a batch, whose jobs have the same output."""
    first = parts[0].job.job
    rows = FlatRows.join([part.job.job.texts_ids.part(part.start, part.stop) for part in parts])
    counts: list[int] = []
    if any(part.job.job.prompt_token_counts for part in parts):
        for part in parts:
            counts += (part.job.job.prompt_token_counts or [0] * part.stop)[part.start : part.stop]
    return BatchTexts(first.output, rows, counts, first.image_tokens)


def _failure(failures: Mapping[int, TextFailure], start: int) -> Failure:
    """Return the failure of the first text that failed. start: index of the first text."""
    first = min(failures)
    return Failure(failures[first].message, start + first, failures[first].finite)
