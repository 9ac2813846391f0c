"""Long work outside the event loop: in a thread, or in queues of steps, such as comparisons."""

import asyncio
import heapq
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TypeVar, TypeVarTuple

from embedwell.compute.admission import Admission, KnownRate
from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.engine.wire.messages import size_class
from embedwell.errors import TimedOut
from embedwell.settings.settings import Settings
from embedwell_models.tokenizer.steps import Steps, run_to_completion

R = TypeVar("R")
Arguments = TypeVarTuple("Arguments")

# A single thread, because library calls hold the GIL: with more threads, the event loop would wait
# for several in turn. The memory budget of large requests bounds how many wait.
_READING_AND_WRITING = ThreadPoolExecutor(1, "large")
_SLICE_SECONDS = 0.05  # a single step may take longer
_SMOOTHING = 0.2  # weight of the latest request in the average

FEW_OPERATIONS = 1 << 20
"""So many multiplications of a matrix product cost less than handing them to a thread."""

STEP_OPERATIONS = 1 << 28
"""Multiplications of a step, which take some ten milliseconds."""

_OPERATIONS_PER_UNIT = 1 << 20  # unit of the work of comparisons, by which a request waits
_FIRST_RATE = 4000.0  # units per second, until it is measured


async def run_in_thread(work: Callable[[*Arguments], R], *arguments: *Arguments, small: bool) -> R:
    """Read or write a body in a thread, or inline if it is small: a thread would cost more."""
    if small:
        return work(*arguments)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_READING_AND_WRITING, work, *arguments)


async def access_files_in_thread(work: Callable[[*Arguments], R], *arguments: *Arguments) -> R:
    """Read or write files in a thread; a cancellation waits until the thread is done."""
    future = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
    try:
        return await asyncio.shield(future)
    finally:
        await asyncio.wait([future])


class WorkQueue:
    """Runs the steps of requests in time slices: smaller requests first, then older ones.

    Steps are short, so a cancelled request stops soon, and the process can exit without waiting.
    """

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        timeout: float,
        max_wait: float,
        max_wait_large: float = math.inf,
        *,
        name: str = "reading the inputs",
        threads: int = 2,
        rate: float = 0.0,
        slice_seconds: float = _SLICE_SECONDS,
    ) -> None:
        """timeout: seconds for a request.

        max_wait, max_wait_large: limits of the expected seconds in the queue.
        name: of the work, in messages.
        rate: units of work per second of all threads, until it is measured; 0 if unknown.
        slice_seconds: length of a time slice, which has at least one step.
        """
        self._timeout, self._slice_seconds, self._name = timeout, slice_seconds, name
        self._count = self._free_slots = threads
        self._threads = ThreadPoolExecutor(threads, name)
        self._rate = KnownRate(rate)
        self._admission = Admission(
            *(max_wait, self._rate, SharedCounters.private()),
            max_wait_large=max_wait_large,
            timeout=timeout,
            work=name,
        )
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap
        self._sequence = count()

    async def run(self, steps: Steps[R], size: int, spent: float = 0) -> R:
        """Run steps of `size` units of work, such as characters; raises Overloaded and TimedOut.

        spent: seconds of the timeout that have passed already.
        """
        with self._admission.admit(size, spent):
            try:
                async with asyncio.timeout(self._timeout - spent):
                    return await self._run_steps(steps, size)
            except TimeoutError:
                raise TimedOut(
                    f"{self._name} took longer than {self._timeout:.0f} s; try again, or send "
                    "fewer inputs",
                    retry_after=1,
                ) from None

    async def _run_steps(self, steps: Steps[R], size: int) -> R:
        priority, spent = (size_class(size), next(self._sequence)), 0.0
        try:
            while True:
                await self._acquire_slot(*priority)
                seconds, result = await self._run_slice(steps)
                spent += seconds
                if result:
                    self._update_rate(size * self._count / spent)
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

    async def _run_slice(self, steps: Steps[R]) -> tuple[float, list[R]]:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, _run_for, steps, self._slice_seconds)
        work.add_done_callback(self._free_slot)
        try:
            return await asyncio.shield(work)  # cancelled, it would end before its thread
        except asyncio.CancelledError:
            work.add_done_callback(lambda _: self._grant_slots())
            raise

    def _free_slot(self, _: object) -> None:
        self._free_slots += 1

    def _grant_slots(self) -> None:
        while self._free_slots and self._waiting:
            *_, slot = heapq.heappop(self._waiting)
            if not slot.done():
                slot.set_result(None)
                self._free_slots -= 1

    def _update_rate(self, rate: float) -> None:
        known = self._rate.latest
        self._rate.latest += (_SMOOTHING if known else 1) * (rate - known)


def _run_for(steps: Steps[R], slice_seconds: float) -> tuple[float, list[R]]:
    """Run steps in this thread; return the seconds, and the result in a list if all are done."""
    start, result = time.perf_counter(), []
    try:
        next(steps)
        while time.perf_counter() < start + slice_seconds:
            next(steps)
    except StopIteration as end:
        result = [end.value]
    return time.perf_counter() - start, result


class ComparisonQueue:
    """Compares vectors: little work at once, and large work in the queue of a single thread.

    One thread, because library calls hold the GIL: with more threads, the event loop would wait for
    several in turn.
    """

    def __init__(self, queue: WorkQueue) -> None:
        """queue: of the work of all models, in units of a million multiplications."""
        self._queue = queue

    @classmethod
    def of(cls, settings: Settings) -> "ComparisonQueue":
        """Create the queue of a process."""
        return cls(
            WorkQueue(
                *(settings.request_timeout, settings.max_wait, settings.max_wait_large),
                name="comparing vectors",
                threads=1,
                rate=_FIRST_RATE,
            )
        )

    async def run(self, steps: Steps[R], operations: int) -> R:
        """Run steps that take as long as so many multiplications of a matrix product.

        Raises Overloaded and TimedOut.
        """
        if operations <= FEW_OPERATIONS:
            return run_to_completion(steps)
        return await self._queue.run(steps, operations // _OPERATIONS_PER_UNIT + 1)
