"""Run long work outside of the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")

# One, for a call of a library holds Python's lock as long as it takes: with more threads the event
# loop would wait for several in turn. The memory that large requests may take together bounds
# how many wait here.
_THREAD = ThreadPoolExecutor(1, "large")


async def run_in_thread(work: Callable[[], R], small: bool) -> R:
    """Run small work inline, as a thread costs more; other work in a thread."""
    return work() if small else await asyncio.get_running_loop().run_in_executor(_THREAD, work)
