"""Work that would keep the event loop from answering others."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


async def offload(work: Callable[[], R], small: bool) -> R:
    """What work gives: at once where it is small, for asking a thread costs more; else beside."""
    return work() if small else await asyncio.to_thread(work)
