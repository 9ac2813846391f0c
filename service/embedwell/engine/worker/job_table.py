"""Unfinished jobs, and the vectors that are computed so far."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from embedwell.engine.wire.framing import HttpProcessConnection
from embedwell.engine.wire.messages import Failure, Job, Result
from embedwell.engine.worker.forward import BatchText
from embedwell.engine.worker.scheduler import QueuedText, Scheduler
from embedwell_models.vectors import Floats

Key = tuple[HttpProcessConnection, int]  # key of a job: its connection, and its number there
ResultsByConnection = Mapping[HttpProcessConnection, Sequence[tuple[int, Result | Failure]]]


@dataclass
class _OpenJob:
    """A job without a result."""

    job: Job
    started_at: float = inf
    vectors: dict[int, Floats] = field(default_factory=dict)

    def text(self, item: QueuedText[Key]) -> BatchText:
        job, index = self.job, item.index
        prompt_token_count = job.prompt_token_counts[index] if job.prompt_token_counts else 0
        return BatchText(item, job.texts_ids[index], prompt_token_count, job.output, job.exclusive)

    def collect(
        self, index: int, vectors: Floats | Failure, rate: float
    ) -> Result | Failure | None:
        """Store the vectors of one text; return the job's result if it was the last text."""
        if isinstance(vectors, Failure):
            return vectors
        self.vectors[index] = np.atleast_2d(vectors)
        return self._result(rate) if len(self.vectors) == len(self.job.texts_ids) else None

    def _result(self, rate: float) -> Result:
        parts = [self.vectors[index] for index in range(len(self.job.texts_ids))]
        vectors = np.concatenate(parts) if len(parts) > 1 else np.ascontiguousarray(parts[0])
        queued, computed = (
            self.started_at - self.job.created_at,
            time.perf_counter() - self.started_at,
        )
        row_counts = [len(part) for part in parts] if self.job.is_packed else ()
        return Result(vectors, round(queued * 1e6), round(computed * 1e6), rate, row_counts)


class JobTable:
    """Accepts jobs, hands out their texts for forward passes, and collects the vectors."""

    def __init__(self) -> None:
        self._scheduler: Scheduler[Key] = Scheduler()
        self._open_jobs: dict[Key, _OpenJob] = {}

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
        self._open_jobs[key] = _OpenJob(job)
        kind = (job.output, key) if job.exclusive else job.output
        self._scheduler.add(key, job.lengths, kind, job.size_class)

    def remove(self, key: Key) -> None:
        """Remove a job that is cancelled or done, if it is present."""
        self._scheduler.cancel(key)
        self._open_jobs.pop(key, None)

    def remove_connection(self, connection: HttpProcessConnection) -> None:
        """Remove the jobs of a closed connection."""
        for key in [key for key in self._open_jobs if key[0] is connection]:
            self.remove(key)

    def take_batch(self, max_tokens: int) -> list[BatchText]:
        """Take the texts of the next batch: at most `max_tokens`, or one longer text."""
        return self._texts(self._scheduler.take_batch(max_tokens))

    def take_short_texts(self, max_tokens: int) -> list[BatchText]:
        """Take a batch of texts of at most `max_tokens` each; [] if only longer texts wait."""
        return self._texts(self._scheduler.take_short_texts(max_tokens))

    def collect(
        self,
        texts: Sequence[BatchText],
        vectors_by_text: Iterable[Floats | Failure],
        started_at: float,
        rate: float,
    ) -> ResultsByConnection:
        """Store the vectors of texts; return the results of completed jobs, by connection.

        started_at: time.perf_counter at the start of their forward pass.
        rate: see Result.
        """
        results_by_connection = defaultdict(list)
        for text, vectors in zip(texts, vectors_by_text, strict=True):
            key = text.item.job
            job = self._open_jobs.get(key)
            if job is None:  # it was cancelled, or another of its texts failed
                continue
            job.started_at = min(job.started_at, started_at)
            result = job.collect(text.item.index, vectors, rate)
            if result is not None:
                self.remove(key)
                results_by_connection[key[0]].append((key[1], result))
        return results_by_connection

    def _texts(self, items: Iterable[QueuedText[Key]]) -> list[BatchText]:
        return [self._open_jobs[item.job].text(item) for item in items]
