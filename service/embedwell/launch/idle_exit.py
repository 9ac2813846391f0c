"""Notice that a server is not used."""

import asyncio
import time
from collections.abc import Callable

from embedwell.compute.activity import is_busy, last_use
from embedwell.launch.reload import ServedState

_START_TICK = 0.5  # seconds between the checks whether the models are ready


async def wait_unused(current: Callable[[], ServedState], limit: float) -> None:
    """Wait until no request has come for a while, and none is running.

    The time begins when the models are ready, and anew when the models file is reloaded. This
    process does not wake up before the limit can have passed.

    current: returns what the server serves.
    limit: seconds.
    """
    while not current().announcements.greeted:
        await asyncio.sleep(_START_TICK)
    state, since = current(), time.monotonic()
    while True:
        if state is not current():
            state, since = current(), time.monotonic()
        remaining = limit - (time.monotonic() - max(since, last_use(state.counters)))
        if is_busy(state.counters):
            remaining = limit
        if remaining <= 0:
            return
        await asyncio.sleep(remaining)
