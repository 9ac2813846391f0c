"""Refuses work that would wait too long, at the door."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.board import Board
from service.errors import Overloaded


class Admission:
    """Expected wait = tokens queued / tokens that the engine encodes in a second."""

    def __init__(self, max_wait: float, rate: Callable[[], float], board: Board) -> None:
        """board: where every HTTP process of the server counts what it has queued."""
        self._max_wait, self._rate, self._board = max_wait, rate, board
        self._slot = board.take()
        board.row[self._slot] = 0  # what a process that died had queued is no more

    @property
    def queued(self) -> int:
        """Tokens admitted and not answered, in the whole server."""
        return int(self._board.total(self._slot))

    @property
    def wait(self) -> float:
        """Seconds until a request that comes now would start; 0 while no rate is known."""
        rate = self._rate()
        return self.queued / rate if rate else 0.0

    @property
    def is_open(self) -> bool:
        return self.wait <= self._max_wait

    @contextmanager
    def admit(self, tokens: int) -> Iterator[None]:
        """Count tokens as queued for the time of the block; raises Overloaded with a retry time."""
        if not self.is_open:
            raise Overloaded(
                f"the queue is {self.wait:.1f} s long, the limit is {self._max_wait:.1f} s",
                retry=self.wait - self._max_wait,
            )
        self._board.row[self._slot] += tokens
        try:
            yield
        finally:
            self._board.row[self._slot] -= tokens
