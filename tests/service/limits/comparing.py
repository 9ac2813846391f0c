"""Comparisons of vectors for tests, with a queue of their own."""

from embedwell.limits.work_queue import Comparisons, WorkQueue


def comparisons(rate: float = 0.0, max_wait: float = 60.0) -> Comparisons:
    """Return comparisons in a queue.

    rate: units of work per second, until it is measured; 0 if unknown.
    """
    return Comparisons(WorkQueue(60, max_wait, max_wait, threads=1, rate=rate))
