"""Which waiting texts share the next forward pass: bookkeeping over lengths, nothing else."""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from service.engine.sizes import CLASSES

J = TypeVar("J")  # what tells jobs apart
Kind = str | int

_NEAR = 2  # classes: jobs of up to four times the size share a pass as they come


@dataclass(frozen=True, slots=True)
class Item(Generic[J]):
    """One text of one job. Only items of one kind can share a pass.

    size: the class of its job: see service.engine.sizes.
    """

    job: J
    index: int
    length: int
    kind: Kind
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[J]):
    """The texts of a job that nobody has taken, all of one kind and size."""

    kind: Kind
    size: int
    items: deque[Item[J]]


_Jobs = OrderedDict[J, _Waiting[J]]  # those that came first, first
_Kinds = dict[Kind, _Jobs[J]]


class Scheduler(Generic[J]):
    """Half of a pass is for the jobs that came first, and half for the smallest.

    So a query does not wait for the ten thousand texts that came before it, and they go on
    however many queries come. Among jobs of a size, who came first is first.
    """

    def __init__(self) -> None:
        self.tokens = 0  # of all that waits
        self._jobs: _Jobs[J] = OrderedDict()
        self._sizes: list[_Kinds[J]] = [defaultdict(OrderedDict) for _ in range(CLASSES)]
        self._odd = False

    def __bool__(self) -> bool:
        """Whether any text waits."""
        return bool(self._jobs)

    def add(self, job: J, lengths: Sequence[int], kind: Kind, size: int) -> None:
        """Let the texts of a new job wait: so many tokens each."""
        items = (Item(job, index, length, kind, size) for index, length in enumerate(lengths))
        waiting = _Waiting(kind, size, deque(items))
        self._jobs[job] = self._sizes[size][kind][job] = waiting
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
        first = self._take(self._leader())
        batch = [first]
        self._fill(batch, self._oldest(first.kind), budget - budget // 2)
        self._fill(batch, self._smallest(first.kind, min(item.size for item in batch)), budget)
        return batch

    def _leader(self) -> _Waiting[J]:
        """Whose kind the next pass is of: the oldest job, and every other time the smallest."""
        oldest, self._odd = _first(self._jobs), not self._odd
        smallest = next(_first(jobs) for kinds in self._sizes for jobs in kinds.values() if jobs)
        return smallest if self._odd and smallest.kind != oldest.kind else oldest

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

    def _smallest(self, kind: Kind, least: int) -> Iterator[_Waiting[J]]:
        """The smallest job of a kind, of some the one that came first: again and again.

        least: the smallest size in the pass. Much larger ones would hold up the rest of it.
        """
        for size, kinds in enumerate(self._sizes):
            jobs = kinds[kind]
            least = min(least, size) if jobs else least
            while jobs and size <= least + _NEAR:
                yield _first(jobs)

    def _take(self, waiting: _Waiting[J]) -> Item[J]:
        item = waiting.items.popleft()
        self.tokens -= item.length
        if not waiting.items:
            self._remove(item.job, waiting)
        return item

    def _remove(self, job: J, waiting: _Waiting[J]) -> None:
        del self._jobs[job], self._sizes[waiting.size][waiting.kind][job]


def _first(jobs: _Jobs[J]) -> _Waiting[J]:
    return next(iter(jobs.values()))
