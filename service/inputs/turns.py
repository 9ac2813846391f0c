"""Long texts are read by turns, in a few threads beside the event loop."""

import asyncio
import heapq
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TypeVar

from models.tokenizer.cooperative import Steps
from service.engine.protocol.sizes import size_class
from service.errors import TimedOut
from service.process.shared_counters import SharedCounters
from service.request.admission import Admission

R = TypeVar("R")

_THREADS = 2
_TURN = 0.05  # seconds; a step may take longer
_WEIGHT = 0.2  # of the latest reading


class Turns:
    """Steps of the smaller requests first, and of those that came first among equals.

    Nothing that is read lasts longer than a step, so who gives up leaves at once, and the process
    ends without waiting for it.
    """

    def __init__(self, timeout: float, max_wait: float, turn: float = _TURN) -> None:
        """timeout: seconds for all turns of a request. max_wait: before them, as is expected.

        turn: seconds, or one step.
        """
        self._timeout, self._seconds, self._free = timeout, turn, _THREADS
        self._threads = ThreadPoolExecutor(_THREADS, "reading")
        self._admission = Admission(max_wait, lambda: self._rate, SharedCounters.private())
        self._rate = 0.0  # characters per second of all threads; 0: not known yet
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap
        self._numbers = count()

    async def take(self, steps: Steps[R], size: int, spent: float = 0) -> R:
        """What steps that read so many characters find; raises Overloaded and TimedOut.

        spent: seconds of the timeout that are over.
        """
        with self._admission.admit(size):
            try:
                async with asyncio.timeout(self._timeout - spent):
                    return await self._all(steps, size)
            except TimeoutError:
                raise TimedOut(f"not read within {self._timeout:.0f} s", retry=1) from None

    async def _all(self, steps: Steps[R], size: int) -> R:
        place, spent = (size_class(size), next(self._numbers)), 0.0
        try:
            while True:
                await self._turn(*place)
                seconds, found = await self._some(steps)
                spent += seconds
                if found:
                    self._observe(size * _THREADS / spent)
                    return found[0]
        finally:
            self._deal()

    async def _turn(self, size: int, number: int) -> None:
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (size, number, given))
        self._deal()
        try:
            await given
        except asyncio.CancelledError:
            # Who goes when it has just been given leaves it to others.
            self._free += not given.cancelled()
            raise

    async def _some(self, steps: Steps[R]) -> tuple[float, list[R]]:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, _some, steps, self._seconds)
        finally:
            self._free += 1

    def _deal(self) -> None:
        while self._free and self._waiting:
            *_, given = heapq.heappop(self._waiting)
            if not given.done():
                given.set_result(None)
                self._free -= 1

    def _observe(self, rate: float) -> None:
        self._rate += (_WEIGHT if self._rate else 1) * (rate - self._rate)


def _some(steps: Steps[R], turn: float) -> tuple[float, list[R]]:
    """The seconds that some steps took; what all have found, if these were the last."""
    start, found = time.perf_counter(), []
    try:
        next(steps)
        while time.perf_counter() < start + turn:
            next(steps)
    except StopIteration as end:
        found = [end.value]
    return time.perf_counter() - start, found
