"""Whether a server is in use: its heartbeat, its open requests, and the time of its last use."""

import asyncio
from collections.abc import Callable

from embedwell.compute.activity import Activity, Heartbeat, is_busy, last_use
from embedwell.engine.wire.engine_state import (
    OPEN_REQUESTS,
    QUEUED_TOKENS,
    CounterSlot,
    SharedCounters,
)


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


def test_the_end_of_a_request_is_a_use_of_the_server() -> None:
    counters = SharedCounters.private()
    activity = Activity(counters)
    activity.begin()
    assert counters.row[OPEN_REQUESTS] == 1 and is_busy([counters])
    counters.row[CounterSlot.LAST_REQUEST] = 0
    activity.end()
    assert counters.row[OPEN_REQUESTS] == 0 and not is_busy([counters])
    assert counters.row[CounterSlot.LAST_REQUEST] > 0


def test_the_texts_of_every_model_are_a_use_of_the_server() -> None:
    first, second = models = [SharedCounters.private() for _ in range(2)]
    assert not is_busy(models) and last_use(models) == 0
    second.row[QUEUED_TOKENS], second.row[CounterSlot.LAST_USED] = 1, 3
    assert is_busy(models) and last_use(models) == 3
    first.row[CounterSlot.LAST_REQUEST] = 5
    assert last_use(models) == 5
