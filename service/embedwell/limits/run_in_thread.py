"""Run long work in a thread, outside the event loop, and short work inline."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

R = TypeVar("R")
Arguments = TypeVarTuple("Arguments")

# A single thread, because library calls hold the GIL: with more threads, the event loop would wait
# for several in turn. The memory budget of large requests bounds how many wait.
_READING_AND_WRITING = ThreadPoolExecutor(1, "large")


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
