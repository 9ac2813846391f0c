"""Unfinished jobs: which of their texts share the next batch, and the vectors computed so far.

The texts of a batch are chosen by their lengths alone.
"""

import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Generic, TypeVar

from embedwell.engine.wire.engine_sockets import HttpProcessConnection
from embedwell.engine.wire.messages import Failure, Job, Result, size_class_limit
from embedwell.engine.worker.forward import BatchTexts, BatchVectors, TextFailure
from embedwell_models.encoder.batch import FlatRows

JobKey = TypeVar("JobKey", bound=Hashable)  # identifies a job
Kind = Hashable  # only jobs of the same kind share a batch

_MAX_CLASS_DISTANCE = 2  # jobs of up to four times the size may fill a batch by urgency
_DUE_FACTOR = 16  # a job is due when the engine has served this many times its tokens


@dataclass(slots=True)
class JobTexts(Generic[JobKey]):
    """Consecutive texts of one job, from `start` to `stop` - 1, in one batch.

    tokens: of these texts together.
    size_class: size class of the job, see embedwell.engine.wire.messages.
    """

    job: JobKey
    start: int
    stop: int
    tokens: int
    size_class: int


@dataclass(slots=True, eq=False)
class _Waiting(Generic[JobKey]):
    """A job with texts that are not in a batch yet.

    due: the job is due when this many tokens have been served.
    ends: tokens of its texts up to each text, beginning with 0.
    next: index of the first text that waits.
    """

    job: JobKey
    kind: Kind
    size_class: int
    due: int
    ends: list[int]
    next: int = 0

    @property
    def next_length(self) -> int:
        """Tokens of the first text that waits."""
        return self.ends[self.next + 1] - self.ends[self.next]


_Jobs = OrderedDict[JobKey, _Waiting[JobKey]]  # oldest first


class Scheduler(Generic[JobKey]):
    """Fills half of a batch with the oldest jobs, and half with the jobs that are due first.

    A small job is due soon after its arrival and a large one late. So a query does not wait for ten
    thousand earlier texts, and these make progress however many queries arrive. As a single text
    can fill a batch, batches alternate: one begins with the oldest job, the next with the job that
    is due first, of any kind. Jobs of the same size class are served in order of arrival.
    """

    def __init__(self) -> None:
        self.tokens = 0  # tokens of all waiting texts
        self._served = 0  # tokens served since the start
        self._oldest_first = False
        self._jobs: _Jobs[JobKey] = OrderedDict()
        # By kind and size class; none is empty.
        self._queues: dict[tuple[Kind, int], _Jobs[JobKey]] = {}

    def __bool__(self) -> bool:
        """Whether any text waits."""
        return bool(self._jobs)

    def add(self, job: JobKey, lengths: Sequence[int], kind: Kind, size_class: int) -> None:
        """Queue the texts of a new job.

        lengths: tokens of each text.
        """
        due = self._served + _DUE_FACTOR * size_class_limit(size_class)
        waiting = _Waiting(job, kind, size_class, due, [0, *accumulate(lengths)])
        self._jobs[job] = waiting
        queue = self._queues.get((kind, size_class))
        if queue is None:
            queue = self._queues[kind, size_class] = OrderedDict()
        queue[job] = waiting
        self.tokens += waiting.ends[-1]

    def cancel(self, job: JobKey) -> None:
        """Remove the waiting texts of a job."""
        waiting = self._jobs.get(job)
        if waiting is not None:
            self.tokens -= waiting.ends[-1] - waiting.ends[waiting.next]
            self._remove(waiting)

    def take_batch(self, max_tokens: int) -> list[JobTexts[JobKey]]:
        """Take the next batch: at most `max_tokens`, or one longer text; [] if none waits."""
        if not self._jobs:
            return []
        self._oldest_first = not self._oldest_first
        oldest_first, queues = self._oldest_first, self._queues.values()
        return self._batch(
            _oldest(self._jobs) if oldest_first else _most_urgent(queues), max_tokens
        )

    def take_short_texts(self, max_tokens: int) -> list[JobTexts[JobKey]]:
        """Take a batch of jobs whose next text has at most `max_tokens`; [] if none."""
        candidates = [
            waiting for waiting in self._jobs.values() if waiting.next_length <= max_tokens
        ]
        most_urgent = min(candidates, key=lambda waiting: waiting.due, default=None)
        return self._batch(most_urgent, max_tokens) if most_urgent else []

    def _batch(self, waiting: _Waiting[JobKey], max_tokens: int) -> list[JobTexts[JobKey]]:
        batch = [self._take(waiting, waiting.next + 1)]
        kind = waiting.kind
        self._fill(batch, self._by_age(kind), max_tokens - max_tokens // 2)
        smallest = min([part.size_class for part in batch])
        self._fill(batch, self._by_urgency(kind, smallest), max_tokens)
        return batch

    def _fill(
        self, batch: list[JobTexts[JobKey]], jobs: Iterator[_Waiting[JobKey]], max_tokens: int
    ) -> None:
        room = max_tokens - sum([part.tokens for part in batch])
        for waiting in jobs:
            ends, start = waiting.ends, waiting.next
            stop = bisect_right(ends, ends[start] + room) - 1
            if stop <= start:
                return
            part, last = self._take(waiting, stop), batch[-1]
            room -= part.tokens
            if part.job is last.job:
                last.stop, last.tokens = part.stop, last.tokens + part.tokens
            else:
                batch.append(part)

    def _by_age(self, kind: Kind) -> Iterator[_Waiting[JobKey]]:
        """Yield the currently oldest job until it is of another kind."""
        while self._jobs and (waiting := _oldest(self._jobs)).kind == kind:
            yield waiting

    def _by_urgency(self, kind: Kind, smallest: int) -> Iterator[_Waiting[JobKey]]:
        """Yield the job of a kind that is currently due first, until it is much larger.

        smallest: size class in the batch, whose texts a much larger job would delay.
        """
        queues = [jobs for (queue_kind, _), jobs in self._queues.items() if queue_kind == kind]
        while queues := [jobs for jobs in queues if jobs]:
            waiting = _most_urgent(queues)
            smallest = min(smallest, waiting.size_class)
            if waiting.size_class > smallest + _MAX_CLASS_DISTANCE:
                return
            yield waiting

    def _take(self, waiting: _Waiting[JobKey], stop: int) -> JobTexts[JobKey]:
        """Take the next texts of a job, before the text `stop`."""
        start, ends = waiting.next, waiting.ends
        waiting.next = stop
        tokens = ends[stop] - ends[start]
        self.tokens -= tokens
        self._served += tokens
        if stop == len(ends) - 1:
            self._remove(waiting)
        return JobTexts(waiting.job, start, stop, tokens, waiting.size_class)

    def _remove(self, waiting: _Waiting[JobKey]) -> None:
        queue = self._queues[waiting.kind, waiting.size_class]
        del self._jobs[waiting.job], queue[waiting.job]
        if not queue:
            del self._queues[waiting.kind, waiting.size_class]


def _oldest(jobs: _Jobs[JobKey]) -> _Waiting[JobKey]:
    return next(iter(jobs.values()))


def _most_urgent(queues: Collection[_Jobs[JobKey]]) -> _Waiting[JobKey]:
    """Return the job that is due first; in each queue, that is the oldest one."""
    oldest = map(_oldest, queues)
    return min(oldest, key=lambda waiting: waiting.due) if len(queues) > 1 else next(oldest)


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
