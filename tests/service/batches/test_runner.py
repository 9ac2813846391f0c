"""One process computes batches, in the gaps that clients leave, until they end."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from embedwell.batches.batch import Batch
from embedwell.batches.route_calls import RouteResponse
from embedwell.batches.runner import BatchRunner
from tests.service.batches.stores import ENDPOINT, Stores


class Calls:
    """Responds to each body with itself, once it may; to no more bodies than the limit, if any."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.limit = sys.maxsize
        self.may_respond = asyncio.Event()
        self.may_respond.set()

    async def post(self, path: str, body: bytes) -> RouteResponse:
        assert path == ENDPOINT
        self.bodies.append(body)
        if len(self.bodies) > self.limit:
            self.may_respond.clear()
        await self.may_respond.wait()
        return RouteResponse("an id", 200, body)


@contextlib.asynccontextmanager
async def running(
    folder: Path, calls: Any, busy: Callable[[], bool] = lambda: False
) -> AsyncIterator[asyncio.Task[None]]:
    stores = Stores(folder)
    runner = BatchRunner(
        folder,
        stores.batches,
        stores.files,
        calls,
        limits=stores.limits,
        busy=busy,
        tokens_per_second=lambda: 0.0,
    )
    task = asyncio.create_task(runner.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def ended(stores: Stores, id: str) -> Batch:
    finals = {"completed", "failed", "expired", "cancelled"}
    await until(lambda: stores.batches.get(id).status in finals)
    return stores.batches.get(id)


def test_batches_are_computed_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores, calls = Stores(tmp_path), Calls()
        first, second = stores.create(2), stores.create(1)
        async with running(tmp_path, calls):
            assert (await ended(stores, second)).status == "completed"
            third = stores.create(3)
            await ended(stores, third)
        for id, names in ((first, "01"), (second, "0"), (third, "012")):
            lines = stores.lines(stores.batches.get(id).output_file_id)
            assert [line["custom_id"] for line in lines] == [*names]
        assert len(calls.bodies) == 6

    asyncio.run(scenario())


def test_of_two_processes_one_computes_and_the_other_takes_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores, first, second = Stores(tmp_path), Calls(), Calls()
        first.may_respond.clear()
        async with running(tmp_path, first) as task:
            id = stores.create(2)
            await until(lambda: len(first.bodies) == 2)
            async with running(tmp_path, second):
                task.cancel()
                await asyncio.wait([task])
                batch = await ended(stores, id)
        assert len(second.bodies) == batch.request_counts.completed == 2
        assert len(stores.lines(batch.output_file_id)) == 2

    asyncio.run(scenario())


def test_nothing_is_computed_while_clients_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores, calls, busy, asked = Stores(tmp_path), Calls(), [True], []

        def is_busy() -> bool:
            asked.append(len(calls.bodies))
            return busy[0]

        id = stores.create(1)
        async with running(tmp_path, calls, is_busy):
            await until(lambda: len(asked) > 5)
            assert not calls.bodies and stores.batches.get(id).status == "in_progress"
            busy[0] = False
            assert (await ended(stores, id)).status == "completed"

    asyncio.run(scenario())


def test_a_batch_that_is_late_expires_also_while_clients_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores, calls = Stores(tmp_path), Calls()
        id = stores.create(2, seconds=1)
        async with running(tmp_path, calls, lambda: True):
            batch = await ended(stores, id)
        assert batch.status == "expired" and not calls.bodies
        assert len(stores.lines(batch.error_file_id)) == 2

    asyncio.run(scenario())


def test_a_cancelled_batch_keeps_what_was_computed(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores, calls = Stores(tmp_path, folder_bytes=1 << 30), Calls()
        calls.may_respond.clear()
        id = stores.create(1000)  # several windows
        async with running(tmp_path, calls):
            await until(lambda: calls.bodies)
            first = len(calls.bodies)
            calls.limit = first
            calls.may_respond.set()
            await until(lambda: len(calls.bodies) > first)
            assert stores.batches.cancel(id).status == "cancelling"
            batch = await ended(stores, id)
        done = batch.request_counts.completed
        assert batch.status == "cancelled" and done == first < 1000
        assert len(stores.lines(batch.output_file_id)) == done
        assert len(stores.lines(batch.error_file_id)) == 1000 - done

    asyncio.run(scenario())


def test_a_batch_whose_requests_are_refused_for_ever_can_be_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores, calls = Stores(tmp_path), Calls()
        calls.may_respond.clear()
        id = stores.create(2)
        async with running(tmp_path, calls):
            await until(lambda: calls.bodies)
            stores.batches.cancel(id)
            batch = await ended(stores, id)
        assert batch.status == "cancelled" and batch.output_file_id is None
        assert len(stores.lines(batch.error_file_id)) == 2

    asyncio.run(scenario())


def test_a_batch_whose_results_do_not_fit_fails_with_those_that_did(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores = Stores(tmp_path)
        id = stores.create(6000)
        async with running(tmp_path, Calls()):
            batch = await ended(stores, id)
        assert batch.status == "failed" and batch.errors is not None
        assert batch.errors.data[0].code == "storage_full"
        assert len(stores.lines(batch.output_file_id)) == batch.request_counts.completed > 0

    asyncio.run(scenario())
