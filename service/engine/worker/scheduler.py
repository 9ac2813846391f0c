"""Choose the waiting texts that share the next batch, by their lengths alone."""

from collections import OrderedDict, deque
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from service.engine.protocol.sizes import max_tokens

JobKey = TypeVar("JobKey")  # identifies a job
Kind = Hashable  # only jobs of the same kind share a batch

_MAX_SIZE_DISTANCE = 2  # classes: jobs of up to four times the size share a pass as they come
_DUE_FACTOR = (
    16  # times the tokens of a job: when so many have been served since it came, it is due
)


@dataclass(frozen=True, slots=True)
class Item(Generic[JobKey]):
    """One text of one job. Only items of one kind can share a batch.

    size: the class of its job: see service.engine.protocol.sizes.
    """

    job: JobKey
    index: int
    length: int
    kind: Kind
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[JobKey]):
    """The texts of a job that are not in a batch yet, all of one kind and size.

    due: when the count of all tokens served so far reaches this, the job is overdue.
    """

    kind: Kind
    size: int
    due: int
    items: deque[Item[JobKey]]


_Jobs = OrderedDict[JobKey, _Waiting[JobKey]]  # those that came first, first


class Scheduler(Generic[JobKey]):
    """Fills half of a batch with the oldest jobs, and half with those that are due first.

    A small job is due soon after it has come and a large one late, so a query does not wait for the
    ten thousand texts that came before it, and they go on however many queries come. Passes take
    turns: one begins with the job that came first, the next with the one that is due first, of
    whatever kind, for a text may fill a pass. Among jobs of a size, who came first is first.
    """

    def __init__(self) -> None:
        self.tokens = 0  # of all that waits
        self._served = 0  # tokens, ever
        self._oldest_first = False
        self._jobs: _Jobs[JobKey] = OrderedDict()
        self._queues: dict[tuple[Kind, int], _Jobs[JobKey]] = {}  # by kind and size; none is empty

    def __bool__(self) -> bool:
        """Whether any text waits."""
        return bool(self._jobs)

    def add(self, job: JobKey, lengths: Sequence[int], kind: Kind, size: int) -> None:
        """Queue the texts of a new job. lengths: tokens of each."""
        items = (Item(job, index, length, kind, size) for index, length in enumerate(lengths))
        waiting = _Waiting(kind, size, self._served + _DUE_FACTOR * max_tokens(size), deque(items))
        self._jobs[job] = waiting
        self._queues.setdefault((kind, size), OrderedDict())[job] = waiting
        self.tokens += sum(lengths)

    def cancel(self, job: JobKey) -> None:
        """Remove the waiting texts of a job."""
        waiting = self._jobs.get(job)
        if waiting is not None:
            self.tokens -= sum(item.length for item in waiting.items)
            self._remove(job, waiting)

    def next(self, budget: int) -> list[Item[JobKey]]:
        """Take the next batch: of at most `budget` tokens, or one longer text; or nothing."""
        if not self._jobs:
            return []
        self._oldest_first = not self._oldest_first
        return self._batch(
            _first(self._jobs) if self._oldest_first else _most_urgent(self._queues.values()),
            budget,
        )

    def take_short_texts(self, budget: int) -> list[Item[JobKey]]:
        """Take the next batch of jobs whose next text is no longer than `budget`; or nothing."""
        candidates = [
            waiting for waiting in self._jobs.values() if waiting.items[0].length <= budget
        ]
        return (
            self._batch(min(candidates, key=lambda waiting: waiting.due), budget)
            if candidates
            else []
        )

    def _batch(self, waiting: _Waiting[JobKey], budget: int) -> list[Item[JobKey]]:
        first = self._take(waiting)
        batch = [first]
        self._fill(batch, self._oldest(first.kind), budget - budget // 2)
        self._fill(batch, self._due(first.kind, min(item.size for item in batch)), budget)
        return batch

    def _fill(
        self, batch: list[Item[JobKey]], jobs: Iterator[_Waiting[JobKey]], budget: int
    ) -> None:
        room = budget - sum(item.length for item in batch)
        for waiting in jobs:
            room -= waiting.items[0].length
            if room < 0:
                return
            batch.append(self._take(waiting))

    def _oldest(self, kind: Kind) -> Iterator[_Waiting[JobKey]]:
        """The job that came first, while it is of a kind: again and again."""
        while self._jobs and (waiting := _first(self._jobs)).kind == kind:
            yield waiting

    def _due(self, kind: Kind, smallest: int) -> Iterator[_Waiting[JobKey]]:
        """The job of a kind that is due first: again and again.

        least: the smallest size in the pass. Much larger ones would hold up the rest of it.
        """
        queues = [jobs for (queue_kind, _), jobs in self._queues.items() if queue_kind == kind]
        while queues := [jobs for jobs in queues if jobs]:
            waiting = _most_urgent(queues)
            smallest = min(smallest, waiting.size)
            if waiting.size > smallest + _MAX_SIZE_DISTANCE:
                return
            yield waiting

    def _take(self, waiting: _Waiting[JobKey]) -> Item[JobKey]:
        item = waiting.items.popleft()
        self.tokens -= item.length
        self._served += item.length
        if not waiting.items:
            self._remove(item.job, waiting)
        return item

    def _remove(self, job: JobKey, waiting: _Waiting[JobKey]) -> None:
        queue = self._queues[waiting.kind, waiting.size]
        del self._jobs[job], queue[job]
        if not queue:
            del self._queues[waiting.kind, waiting.size]


def _first(jobs: _Jobs[JobKey]) -> _Waiting[JobKey]:
    return next(iter(jobs.values()))


def _most_urgent(queues: Collection[_Jobs[JobKey]]) -> _Waiting[JobKey]:
    """The job that is due first: in each queue, that is the one that came first."""
    firsts = map(_first, queues)
    return min(firsts, key=lambda waiting: waiting.due) if len(queues) > 1 else next(firsts)
