"""The jobs that are not answered yet, and how far each has come: bookkeeping, nothing else."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from models.vectors import Floats
from service.engine.protocol.messages import Failure, Job, Result
from service.engine.protocol.wire import Line
from service.engine.worker.forward import Text
from service.engine.worker.scheduler import Item, Scheduler

Key = tuple[Line, int]  # of a job: its number on its line
Outbox = Mapping[Line, Sequence[tuple[int, Result | Failure]]]


@dataclass
class _Open:
    """A job that is not answered yet."""

    job: Job
    started: float = inf
    done: dict[int, Floats] = field(default_factory=dict)

    def text(self, item: Item[Key]) -> Text:
        job, index = self.job, item.index
        skip = job.skips[index] if job.skips else 0
        return Text(item, job.rows[index], skip, job.output, job.alone)

    def settle(self, index: int, vectors: Floats | Failure, rate: float) -> Result | Failure | None:
        """The answer, if this was the last that it waits for."""
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
    """Takes jobs in, gives texts out to be computed, and takes back what became of them."""

    def __init__(self) -> None:
        self._scheduler: Scheduler[Key] = Scheduler()
        self._open: dict[Key, _Open] = {}

    def __len__(self) -> int:
        """How many jobs are not answered."""
        return len(self._open)

    @property
    def idle(self) -> bool:
        """Whether every text has been taken; one that waits may have no tokens."""
        return not self._scheduler

    @property
    def waiting(self) -> int:
        """The tokens of all texts that nobody has taken."""
        return self._scheduler.tokens

    def accept(self, key: Key, job: Job) -> None:
        """Let the texts of a job wait."""
        self._open[key] = _Open(job)
        kind = (job.output, key) if job.alone else job.output
        self._scheduler.add(key, [len(row) for row in job.rows], kind, job.size)

    def forget(self, key: Key) -> None:
        """Nobody waits for this job, if it is still open."""
        self._scheduler.cancel(key)
        self._open.pop(key, None)

    def leave(self, line: Line) -> None:
        """Nobody waits for the jobs of a line."""
        for key in [key for key in self._open if key[0] is line]:
            self.forget(key)

    def take(self, budget: int) -> list[Text]:
        """The texts of the next pass, of at most so many tokens, or one longer text."""
        return self._texts(self._scheduler.next(budget))

    def short(self, budget: int) -> list[Text]:
        """The same of texts that are no longer: none, where only longer ones wait."""
        return self._texts(self._scheduler.short(budget))

    def settle(
        self, texts: Sequence[Text], found: Iterable[Floats | Failure], began: float, rate: float
    ) -> Outbox:
        """Take back what became of texts: the answers of the jobs that end with it, by line.

        began: when their pass did. rate: see Result.
        """
        outbox = defaultdict(list)
        for text, vectors in zip(texts, found, strict=True):
            key = text.item.job
            job = self._open.get(key)
            if job is None:  # it was cancelled, or another of its texts has failed
                continue
            job.started = min(job.started, began)
            outcome = job.settle(text.item.index, vectors, rate)
            if outcome is not None:
                self.forget(key)
                outbox[key[0]].append((key[1], outcome))
        return outbox

    def _texts(self, items: Iterable[Item[Key]]) -> list[Text]:
        return [self._open[item.job].text(item) for item in items]
