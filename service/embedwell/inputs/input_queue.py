"""Tokenize long texts and decode images in time slices, in a few threads."""

import asyncio
import heapq
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TypeVar

from embedwell.engine.protocol.sizes import size_class
from embedwell.errors import TimedOut
from embedwell.process.shared_counters import SharedCounters
from embedwell.request.admission import Admission
from embedwell_models.tokenizer.cooperative import Cooperative

R = TypeVar("R")

_THREADS = 2
_SLICE_SECONDS = 0.05  # a single step may take longer
_SMOOTHING = 0.2  # weight of the latest request in the average


class InputQueue:
    """Runs the steps of requests in time slices: smaller requests first, then older ones.

    Steps are short, so a cancelled request stops soon, and the process can exit without waiting.
    """

    def __init__(
        self, timeout: float, max_wait: float, slice_seconds: float = _SLICE_SECONDS
    ) -> None:
        """timeout: seconds for a request.

        max_wait: limit of the expected seconds in the queue.
        slice_seconds: length of a time slice, which has at least one step.
        """
        self._timeout, self._slice_seconds, self._free_slots = timeout, slice_seconds, _THREADS
        self._threads = ThreadPoolExecutor(_THREADS, "reading")
        self._admission = Admission(max_wait, lambda: self._rate, SharedCounters.private())
        self._rate = 0.0  # characters per second of all threads; 0 if unknown
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap
        self._sequence = count()

    async def run(self, steps: Cooperative[R], size: int, spent: float = 0) -> R:
        """Run steps that tokenize `size` characters; raises Overloaded and TimedOut.

        spent: seconds of the timeout that have passed already.
        """
        with self._admission.admit(size):
            try:
                async with asyncio.timeout(self._timeout - spent):
                    return await self._run_steps(steps, size)
            except TimeoutError:
                raise TimedOut(
                    f"tokenization took longer than {self._timeout:.0f} s; try again, or send "
                    "fewer inputs",
                    retry_after=1,
                ) from None

    async def _run_steps(self, steps: Cooperative[R], size: int) -> R:
        priority, spent = (size_class(size), next(self._sequence)), 0.0
        try:
            while True:
                await self._acquire_slot(*priority)
                seconds, result = await self._run_slice(steps)
                spent += seconds
                if result:
                    self._update_rate(size * _THREADS / spent)
                    return result[0]
        finally:
            self._grant_slots()

    async def _acquire_slot(self, size: int, number: int) -> None:
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (size, number, slot))
        self._grant_slots()
        try:
            await slot
        except asyncio.CancelledError:
            # Give the slot back if it was granted before the cancellation.
            self._free_slots += not slot.cancelled()
            raise

    async def _run_slice(self, steps: Cooperative[R]) -> tuple[float, list[R]]:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, _run_slice, steps, self._slice_seconds)
        finally:
            self._free_slots += 1

    def _grant_slots(self) -> None:
        while self._free_slots and self._waiting:
            *_, slot = heapq.heappop(self._waiting)
            if not slot.done():
                slot.set_result(None)
                self._free_slots -= 1

    def _update_rate(self, rate: float) -> None:
        self._rate += (_SMOOTHING if self._rate else 1) * (rate - self._rate)


def _run_slice(steps: Cooperative[R], slice_seconds: float) -> tuple[float, list[R]]:
    """Run one time slice; return its seconds, and the result in a list if the steps are done."""
    start, result = time.perf_counter(), []
    try:
        next(steps)
        while time.perf_counter() < start + slice_seconds:
            next(steps)
    except StopIteration as end:
        result = [end.value]
    return time.perf_counter() - start, result
