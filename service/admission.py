"""Refuses work that would wait too long, at the door."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.board import Board
from service.engine.sizes import CLASSES, size_class
from service.errors import Overloaded


class Admission:
    """Expected wait = tokens that are served before / tokens that the engine encodes in a second.

    The engine gives half of each pass to the smallest requests (see service.engine.scheduler), so
    one waits at most for the whole queue, and for twice of what is no larger than itself.
    """

    def __init__(self, max_wait: float, rate: Callable[[], float], board: Board) -> None:
        """board: where every HTTP process of the server counts what it has queued."""
        self._max_wait, self._rate, self._board = max_wait, rate, board
        self._all, self._sizes = board.take(), board.take(CLASSES)
        for slot in (self._all, *self._slots(CLASSES)):
            board.row[slot] = 0  # what a process that died had queued is no more

    @property
    def queued(self) -> int:
        """Tokens admitted and not answered, in the whole server."""
        return int(self._board.total(self._all))

    @property
    def wait(self) -> float:
        """Seconds until the queue of now is answered; 0 while no rate is known."""
        return self._seconds(self.queued)

    @property
    def is_open(self) -> bool:
        """Whether a query would be admitted."""
        return self._wait(0) <= self._max_wait

    @contextmanager
    def admit(self, tokens: int) -> Iterator[None]:
        """Count tokens as queued for the time of the block; raises Overloaded with a retry time."""
        size = size_class(tokens)
        wait = self._wait(size)
        if wait > self._max_wait:
            raise Overloaded(
                f"the queue is {wait:.1f} s long, the limit is {self._max_wait:.1f} s",
                retry=wait - self._max_wait,
            )
        self._count(size, tokens)
        try:
            yield
        finally:
            self._count(size, -tokens)

    def _count(self, size: int, tokens: int) -> None:
        self._board.row[self._all] += tokens
        self._board.row[self._sizes + size] += tokens

    def _wait(self, size: int) -> float:
        """Seconds until a request of a class is answered."""
        if self.wait <= self._max_wait:  # as it mostly is, and then no more need be known
            return self.wait
        smaller = sum(self._board.total(slot) for slot in self._slots(size + 1))
        return self._seconds(min(self.queued, 2 * smaller))

    def _seconds(self, tokens: float) -> float:
        rate = self._rate()
        return tokens / rate if rate else 0.0

    def _slots(self, classes: int) -> range:
        return range(self._sizes, self._sizes + classes)
