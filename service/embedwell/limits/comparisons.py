"""The queue of comparisons: searches, scores of vectors, and MaxSim."""

from typing import TypeVar

from embedwell.limits.work_queue import WorkQueue
from embedwell.settings.settings import Settings
from embedwell_models.tokenizer.steps import Steps, run_to_completion

R = TypeVar("R")

FEW_OPERATIONS = 1 << 20
"""So many multiplications of a matrix product cost less than handing them to a thread."""

STEP_OPERATIONS = 1 << 28
"""Multiplications of a step, which take some ten milliseconds."""

_OPERATIONS_PER_UNIT = 1 << 20  # of the work by which a request waits
_FIRST_RATE = 4000.0  # units per second, until it is measured


class Comparisons:
    """Compares vectors: little work at once, and large work in the queue of a single thread.

    One thread, because library calls hold the GIL: with more threads, the event loop would wait for
    several in turn.
    """

    def __init__(self, queue: WorkQueue) -> None:
        """queue: of the work of all models, in units of a million multiplications."""
        self._queue = queue

    @classmethod
    def of(cls, settings: Settings) -> "Comparisons":
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
