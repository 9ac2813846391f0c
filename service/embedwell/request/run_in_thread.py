"""Run long work in a thread, outside the event loop, and short work inline."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")

FEW_OPERATIONS = 1 << 20
"""So many multiplications cost less than handing them to a thread."""

# A single thread, because library calls hold the GIL: with more threads, the event loop would wait
# for several in turn. The memory budget of large requests bounds how many wait here.
_THREAD = ThreadPoolExecutor(1, "large")


async def run_in_thread(work: Callable[[], R], small: bool) -> R:
    """Run work in a thread, or inline if it is small, because a thread would cost more."""
    return work() if small else await asyncio.get_running_loop().run_in_executor(_THREAD, work)
