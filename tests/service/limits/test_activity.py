"""The heartbeat of an HTTP process that clients use from time to time."""

import asyncio
from collections.abc import Callable

from embedwell.engine.wire.shared_counters import CounterSlot, SharedCounters
from embedwell.limits.activity import Heartbeat


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_it_beats_while_clients_use_the_process() -> None:
    async def run() -> None:
        row, begun, busy = SharedCounters.private().row, list[None](), list[None]()

        def beat() -> float:
            return row[CounterSlot.HEARTBEAT]

        heartbeat = Heartbeat(row, lambda: begun.append(None), lambda: bool(busy), interval=0.01)
        heartbeat.start()
        assert beat() < 0 and not begun
        busy.append(None)
        heartbeat.note_use()
        heartbeat.note_use()
        await until(lambda: beat() > 5)
        busy.clear()
        await until(lambda: beat() < 0)
        pause = beat()
        await asyncio.sleep(0.05)
        assert beat() == pause and len(begun) == 1
        heartbeat.note_use()
        assert beat() > -pause and len(begun) == 2

    asyncio.run(run())


def test_it_always_beats_in_a_process_that_works_without_clients() -> None:
    async def run() -> None:
        row = SharedCounters.private().row
        Heartbeat(row, lambda: None, lambda: True, interval=0.01).start()
        await until(lambda: row[CounterSlot.HEARTBEAT] > 5)

    asyncio.run(run())
