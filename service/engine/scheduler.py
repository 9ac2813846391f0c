"""Which waiting texts share the next forward pass: bookkeeping over lengths, nothing else."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

J = TypeVar("J")  # what tells jobs apart


@dataclass(frozen=True, slots=True)
class Item(Generic[J]):
    """One text of one job. Only items of one kind can share a pass."""

    job: J
    index: int
    length: int
    kind: str | int


_SHORT = 64  # tokens: of texts no longer than this, none is held up by another


class Scheduler(Generic[J]):
    """The item that has waited longest is in every batch, so none starves.

    The room beside it goes to the shortest, so that a query is not held up by a book that came
    before it; among short ones, to who came first.
    """

    def __init__(self) -> None:
        self.tokens = 0  # of all that waits
        self._arrived: OrderedDict[int, Item[J]] = OrderedDict()
        self._shortest: dict[str | int, list[tuple[int, int]]] = defaultdict(list)
        self._jobs: dict[J, set[int]] = defaultdict(set)
        self._number = count()

    def __len__(self) -> int:
        return len(self._arrived)

    def add(self, item: Item[J]) -> None:
        """Let an item wait."""
        number = next(self._number)
        self._arrived[number] = item
        self._jobs[item.job].add(number)
        heappush(self._shortest[item.kind], (max(item.length, _SHORT), number))
        self.tokens += item.length

    def cancel(self, job: J) -> None:
        """Forget what still waits of a job."""
        for number in self._jobs.pop(job, ()):
            self.tokens -= self._arrived.pop(number).length

    def next(self, budget: int) -> list[Item[J]]:
        """Take the next batch: of at most `budget` tokens, or one longer text; or nothing."""
        if not self._arrived:
            return []
        batch = [self._take(next(iter(self._arrived)))]
        room = budget - batch[0].length
        heap = self._shortest[batch[0].kind]
        while heap:
            number = heap[0][1]
            item = self._arrived.get(number)  # None: it was taken or cancelled
            if item and item.length > room:
                break
            heappop(heap)
            if item:
                batch.append(self._take(number))
                room -= item.length
        if not heap:
            del self._shortest[batch[0].kind]
        return batch

    def _take(self, number: int) -> Item[J]:
        item = self._arrived.pop(number)
        self.tokens -= item.length
        left = self._jobs[item.job]
        left.discard(number)
        if not left:
            del self._jobs[item.job]
        return item
