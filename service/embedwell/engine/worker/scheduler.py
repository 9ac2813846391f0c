"""Choose the waiting texts that share the next batch, by their lengths alone."""

from collections import OrderedDict, deque
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from embedwell.engine.wire.sizes import size_class_limit

JobKey = TypeVar("JobKey")  # identifies a job
Kind = Hashable  # only jobs of the same kind share a batch

_MAX_CLASS_DISTANCE = 2  # jobs of up to four times the size may fill a batch by urgency
_DUE_FACTOR = 16  # a job is due when the engine has served this many times its tokens


@dataclass(frozen=True, slots=True)
class QueuedText(Generic[JobKey]):
    """One text of one job. Only texts of the same kind can share a batch.

    size_class: size class of its job, see embedwell.engine.wire.sizes.
    """

    job: JobKey
    index: int
    length: int
    kind: Kind
    size_class: int = 0


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[JobKey]):
    """The texts of a job that are not in a batch yet.

    due: the job is due when this many tokens have been served.
    """

    kind: Kind
    size_class: int
    due: int
    items: deque[QueuedText[JobKey]]


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
        self._queues: dict[
            tuple[Kind, int], _Jobs[JobKey]
        ] = {}  # by kind and size class; none is empty

    def __bool__(self) -> bool:
        """Whether any text waits."""
        return bool(self._jobs)

    def add(self, job: JobKey, lengths: Sequence[int], kind: Kind, size_class: int) -> None:
        """Queue the texts of a new job.

        lengths: tokens of each text.
        """
        items = (
            QueuedText(job, index, length, kind, size_class) for index, length in enumerate(lengths)
        )
        due = self._served + _DUE_FACTOR * size_class_limit(size_class)
        waiting = _Waiting(kind, size_class, due, deque(items))
        self._jobs[job] = waiting
        self._queues.setdefault((kind, size_class), OrderedDict())[job] = waiting
        self.tokens += sum(lengths)

    def cancel(self, job: JobKey) -> None:
        """Remove the waiting texts of a job."""
        waiting = self._jobs.get(job)
        if waiting is not None:
            self.tokens -= sum(item.length for item in waiting.items)
            self._remove(job, waiting)

    def take_batch(self, max_tokens: int) -> list[QueuedText[JobKey]]:
        """Take the next batch: at most `max_tokens`, or one longer text; [] if none waits."""
        if not self._jobs:
            return []
        self._oldest_first = not self._oldest_first
        oldest_first, queues = self._oldest_first, self._queues.values()
        return self._batch(
            _oldest(self._jobs) if oldest_first else _most_urgent(queues), max_tokens
        )

    def take_short_texts(self, max_tokens: int) -> list[QueuedText[JobKey]]:
        """Take a batch of jobs whose next text has at most `max_tokens`; [] if none."""
        candidates = [
            waiting for waiting in self._jobs.values() if waiting.items[0].length <= max_tokens
        ]
        most_urgent = min(candidates, key=lambda waiting: waiting.due, default=None)
        return self._batch(most_urgent, max_tokens) if most_urgent else []

    def _batch(self, waiting: _Waiting[JobKey], max_tokens: int) -> list[QueuedText[JobKey]]:
        first = self._take(waiting)
        batch = [first]
        self._fill(batch, self._by_age(first.kind), max_tokens - max_tokens // 2)
        self._fill(
            batch, self._by_urgency(first.kind, min(item.size_class for item in batch)), max_tokens
        )
        return batch

    def _fill(
        self, batch: list[QueuedText[JobKey]], jobs: Iterator[_Waiting[JobKey]], max_tokens: int
    ) -> None:
        room = max_tokens - sum(item.length for item in batch)
        for waiting in jobs:
            room -= waiting.items[0].length
            if room < 0:
                return
            batch.append(self._take(waiting))

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

    def _take(self, waiting: _Waiting[JobKey]) -> QueuedText[JobKey]:
        item = waiting.items.popleft()
        self.tokens -= item.length
        self._served += item.length
        if not waiting.items:
            self._remove(item.job, waiting)
        return item

    def _remove(self, job: JobKey, waiting: _Waiting[JobKey]) -> None:
        queue = self._queues[waiting.kind, waiting.size_class]
        del self._jobs[job], queue[job]
        if not queue:
            del self._queues[waiting.kind, waiting.size_class]


def _oldest(jobs: _Jobs[JobKey]) -> _Waiting[JobKey]:
    return next(iter(jobs.values()))


def _most_urgent(queues: Collection[_Jobs[JobKey]]) -> _Waiting[JobKey]:
    """Return the job that is due first; in each queue, that is the oldest one."""
    oldest = map(_oldest, queues)
    return min(oldest, key=lambda waiting: waiting.due) if len(queues) > 1 else next(oldest)
