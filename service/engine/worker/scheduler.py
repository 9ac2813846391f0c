"""Which waiting texts share the next forward pass: bookkeeping over lengths, nothing else."""

from collections import OrderedDict, deque
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from service.engine.protocol.sizes import most

J = TypeVar("J")  # what tells jobs apart
Kind = Hashable  # jobs of different kinds share no pass

_NEAR = 2  # classes: jobs of up to four times the size share a pass as they come
_STRETCH = 16  # times the tokens of a job: when so many have been served since it came, it is due


@dataclass(frozen=True, slots=True)
class Item(Generic[J]):
    """One text of one job. Only items of one kind can share a pass.

    size: the class of its job: see service.engine.protocol.sizes.
    """

    job: J
    index: int
    length: int
    kind: Kind
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[J]):
    """The texts of a job that nobody has taken, all of one kind and size.

    due: by the count of all tokens that were ever taken.
    """

    kind: Kind
    size: int
    due: int
    items: deque[Item[J]]


_Jobs = OrderedDict[J, _Waiting[J]]  # those that came first, first


class Scheduler(Generic[J]):
    """Half of a pass is for the jobs that came first, and half for those that are due first.

    A small job is due soon after it has come and a large one late, so a query does not wait for the
    ten thousand texts that came before it, and they go on however many queries come. Passes take
    turns: one begins with the job that came first, the next with the one that is due first, of
    whatever kind, for a text may fill a pass. Among jobs of a size, who came first is first.
    """

    def __init__(self) -> None:
        self.tokens = 0  # of all that waits
        self._taken = 0  # tokens, ever
        self._odd = False
        self._jobs: _Jobs[J] = OrderedDict()
        self._queues: dict[tuple[Kind, int], _Jobs[J]] = {}  # by kind and size; none is empty

    def __bool__(self) -> bool:
        """Whether any text waits."""
        return bool(self._jobs)

    def add(self, job: J, lengths: Sequence[int], kind: Kind, size: int) -> None:
        """Let the texts of a new job wait: so many tokens each."""
        items = (Item(job, index, length, kind, size) for index, length in enumerate(lengths))
        waiting = _Waiting(kind, size, self._taken + _STRETCH * most(size), deque(items))
        self._jobs[job] = waiting
        self._queues.setdefault((kind, size), OrderedDict())[job] = waiting
        self.tokens += sum(lengths)

    def cancel(self, job: J) -> None:
        """Forget what still waits of a job."""
        waiting = self._jobs.get(job)
        if waiting is not None:
            self.tokens -= sum(item.length for item in waiting.items)
            self._remove(job, waiting)

    def next(self, budget: int) -> list[Item[J]]:
        """Take the next batch: of at most `budget` tokens, or one longer text; or nothing."""
        if not self._jobs:
            return []
        self._odd = not self._odd
        return self._batch(
            _first(self._jobs) if self._odd else _urgent(self._queues.values()), budget
        )

    def short(self, budget: int) -> list[Item[J]]:
        """Take the next batch of jobs whose next text is no longer than `budget`; or nothing."""
        found = [waiting for waiting in self._jobs.values() if waiting.items[0].length <= budget]
        return self._batch(min(found, key=lambda waiting: waiting.due), budget) if found else []

    def _batch(self, waiting: _Waiting[J], budget: int) -> list[Item[J]]:
        first = self._take(waiting)
        batch = [first]
        self._fill(batch, self._oldest(first.kind), budget - budget // 2)
        self._fill(batch, self._due(first.kind, min(item.size for item in batch)), budget)
        return batch

    def _fill(self, batch: list[Item[J]], jobs: Iterator[_Waiting[J]], budget: int) -> None:
        room = budget - sum(item.length for item in batch)
        for waiting in jobs:
            room -= waiting.items[0].length
            if room < 0:
                return
            batch.append(self._take(waiting))

    def _oldest(self, kind: Kind) -> Iterator[_Waiting[J]]:
        """The job that came first, while it is of a kind: again and again."""
        while self._jobs and (waiting := _first(self._jobs)).kind == kind:
            yield waiting

    def _due(self, kind: Kind, least: int) -> Iterator[_Waiting[J]]:
        """The job of a kind that is due first: again and again.

        least: the smallest size in the pass. Much larger ones would hold up the rest of it.
        """
        queues = [jobs for (own, _), jobs in self._queues.items() if own == kind]
        while queues := [jobs for jobs in queues if jobs]:
            waiting = _urgent(queues)
            least = min(least, waiting.size)
            if waiting.size > least + _NEAR:
                return
            yield waiting

    def _take(self, waiting: _Waiting[J]) -> Item[J]:
        item = waiting.items.popleft()
        self.tokens -= item.length
        self._taken += item.length
        if not waiting.items:
            self._remove(item.job, waiting)
        return item

    def _remove(self, job: J, waiting: _Waiting[J]) -> None:
        queue = self._queues[waiting.kind, waiting.size]
        del self._jobs[job], queue[job]
        if not queue:
            del self._queues[waiting.kind, waiting.size]


def _first(jobs: _Jobs[J]) -> _Waiting[J]:
    return next(iter(jobs.values()))


def _urgent(queues: Collection[_Jobs[J]]) -> _Waiting[J]:
    """The job that is due first: in each queue, that is the one that came first."""
    firsts = map(_first, queues)
    return min(firsts, key=lambda waiting: waiting.due) if len(queues) > 1 else next(firsts)
