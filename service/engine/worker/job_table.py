"""The jobs without a result yet, and the progress of each: bookkeeping, nothing else."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from models.vectors import Floats
from service.engine.protocol.messages import Failure, Job, Result
from service.engine.protocol.wire import WorkerConnection
from service.engine.worker.forward import Text
from service.engine.worker.scheduler import Item, Scheduler

Key = tuple[WorkerConnection, int]  # of a job: its number on its connection
ResultsByConnection = Mapping[WorkerConnection, Sequence[tuple[int, Result | Failure]]]


@dataclass
class _Open:
    """A job without a result yet."""

    job: Job
    started: float = inf
    done: dict[int, Floats] = field(default_factory=dict)

    def text(self, item: Item[Key]) -> Text:
        job, index = self.job, item.index
        skip = job.skips[index] if job.skips else 0
        return Text(item, job.rows[index], skip, job.output, job.alone)

    def settle(self, index: int, vectors: Floats | Failure, rate: float) -> Result | Failure | None:
        """Store the vectors of one text; the result of the job if it was the last."""
        if isinstance(vectors, Failure):
            return vectors
        self.done[index] = np.atleast_2d(vectors)
        return self._result(rate) if len(self.done) == len(self.job.rows) else None

    def _result(self, rate: float) -> Result:
        parts = [self.done[index] for index in range(len(self.job.rows))]
        whole = np.concatenate(parts) if len(parts) > 1 else np.ascontiguousarray(parts[0])
        queued, computed = self.started - self.job.begun, time.perf_counter() - self.started
        return Result(whole, round(queued * 1e6), round(computed * 1e6), rate)


class JobTable:
    """Accepts jobs, hands out their texts for forward passes, and collects the vectors."""

    def __init__(self) -> None:
        self._scheduler: Scheduler[Key] = Scheduler()
        self._open: dict[Key, _Open] = {}

    def __len__(self) -> int:
        """How many jobs have no result."""
        return len(self._open)

    @property
    def idle(self) -> bool:
        """Whether no text waits; one that does may have no tokens."""
        return not self._scheduler

    @property
    def waiting(self) -> int:
        """The tokens of all waiting texts."""
        return self._scheduler.tokens

    def accept(self, key: Key, job: Job) -> None:
        """Queue the texts of a job."""
        self._open[key] = _Open(job)
        kind = (job.output, key) if job.alone else job.output
        self._scheduler.add(key, [len(row) for row in job.rows], kind, job.size)

    def forget(self, key: Key) -> None:
        """Drop a job, if it has no result yet: its client has gone."""
        self._scheduler.cancel(key)
        self._open.pop(key, None)

    def drop_connection(self, connection: WorkerConnection) -> None:
        """Drop the jobs of a connection that was closed."""
        for key in [key for key in self._open if key[0] is connection]:
            self.forget(key)

    def take(self, budget: int) -> list[Text]:
        """The texts of the next batch, of at most so many tokens, or one longer text."""
        return self._texts(self._scheduler.next(budget))

    def short(self, budget: int) -> list[Text]:
        """The same of short texts only; none, where only longer ones wait."""
        return self._texts(self._scheduler.short(budget))

    def settle(
        self, texts: Sequence[Text], found: Iterable[Floats | Failure], began: float, rate: float
    ) -> ResultsByConnection:
        """Collect the vectors of texts; the results of the jobs that are complete, by connection.

        began: when their forward pass did. rate: see Result.
        """
        results_by_connection = defaultdict(list)
        for text, vectors in zip(texts, found, strict=True):
            key = text.item.job
            job = self._open.get(key)
            if job is None:  # it was cancelled, or another of its texts has failed
                continue
            job.started = min(job.started, began)
            outcome = job.settle(text.item.index, vectors, rate)
            if outcome is not None:
                self.forget(key)
                results_by_connection[key[0]].append((key[1], outcome))
        return results_by_connection

    def _texts(self, items: Iterable[Item[Key]]) -> list[Text]:
        return [self._open[item.job].text(item) for item in items]
