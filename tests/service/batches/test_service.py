"""One process computes batches, in the gaps that clients leave, until they end."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from embedwell.compute.request_limits import MemoryBudget, Reservation
from embedwell.errors import EngineUnavailable
from embedwell_batches.batch import Batch
from embedwell_batches.route_calls import RouteResponse
from embedwell_batches.service import BatchRunner
from tests.service.batches.stores import ENDPOINT, Stores, requests


class Calls:
    """Responds to each body with itself, once it may; to no more bodies than the limit, if any.

    refused: count of requests for a model that cannot be loaded.
    """

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.budget, self.refused = MemoryBudget(), 0
        self.limit = sys.maxsize
        self.may_respond = asyncio.Event()
        self.may_respond.set()

    async def post(self, path: str, body: bytes, memory: Reservation) -> RouteResponse:
        assert path == ENDPOINT
        if b"unavailable" in body:
            self.refused += 1
            raise EngineUnavailable("the model cannot be loaded", retry_after=0.05)
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


def create(stores: Stores, content: bytes, seconds: int = 86400) -> str:
    file = stores.add(content)
    return stores.batches.create(file, ENDPOINT, ("24h", seconds), None).id


UNAVAILABLE = requests(3).replace(b"the work 1", b"unavailable")


def test_a_batch_whose_model_cannot_be_loaded_waits_while_others_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores, calls = Stores(tmp_path), Calls()
        waiting, expiring = create(stores, UNAVAILABLE), create(stores, UNAVAILABLE, seconds=2)
        async with running(tmp_path, calls):
            await until(lambda: calls.refused)
            assert (await ended(stores, stores.create(3))).status == "completed"
            assert (await ended(stores, expiring)).status == "expired"
            counts = stores.batches.get(waiting).request_counts
            assert (counts.completed, counts.failed) == (1, 0)
            stores.batches.cancel(waiting)
            batch = await ended(stores, waiting)
        assert batch.status == "cancelled"
        assert [line["custom_id"] for line in stores.lines(batch.output_file_id)] == ["0"]
        assert [line["custom_id"] for line in stores.lines(batch.error_file_id)] == ["1", "2"]

    asyncio.run(scenario())


def test_a_batch_that_cannot_be_read_fails_and_no_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores = Stores(tmp_path)
        deep = requests(2).replace(b'"the work 1"', b"[" * 300 + b"]" * 300)
        bad = [create(stores, deep), stores.create(2), stores.create(2)]
        for id, content in zip(bad[1:], [b"no JSON\n", None], strict=True):
            assert stores.work(id).start()  # it has been checked
            path = stores.batches.folder(id) / "input.jsonl"
            path.unlink()
            if content is not None:
                path.write_bytes(content)
        good = stores.create(2)
        async with running(tmp_path, Calls()):
            assert (await ended(stores, good)).status == "completed"
            batches = [await ended(stores, id) for id in bad]
        assert [batch.status for batch in batches] == ["failed"] * 3
        codes = [batch.errors.data[0].code for batch in batches if batch.errors]
        assert codes == ["invalid_request", "invalid_json_line", "internal_error"]

    asyncio.run(scenario())


def test_a_batch_that_cannot_be_read_can_be_cancelled_or_expires(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores = Stores(tmp_path)
        cancelled, expired = stores.create(2), stores.create(2, seconds=-1)
        for id in (cancelled, expired):
            (stores.batches.folder(id) / "input.jsonl").write_bytes(b"no JSON\n")
        stores.batches.cancel(cancelled)
        async with running(tmp_path, Calls()):
            assert (await ended(stores, cancelled)).status == "cancelled"
            assert (await ended(stores, expired)).status == "expired"

    asyncio.run(scenario())


def test_a_batch_that_cannot_be_saved_waits_while_others_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores = Stores(tmp_path)
        bad, good = stores.create(2), stores.create(2)
        (stores.batches.folder(bad) / "batch.json.new").mkdir()  # where its state is written first
        async with running(tmp_path, Calls()) as task:
            assert (await ended(stores, good)).status == "completed"
            assert (await ended(stores, stores.create(1))).status == "completed"
            assert stores.batches.get(bad).status == "validating" and not task.done()
        (stores.batches.folder(bad) / "batch.json.new").rmdir()
        async with running(tmp_path, Calls()):
            assert (await ended(stores, bad)).status == "completed"

    asyncio.run(scenario())


def test_a_cancelled_batch_ends_while_another_is_computed(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores, calls, busy = Stores(tmp_path), Calls(), [True]
        computed, cancelled = stores.create(2), stores.create(2)
        async with running(tmp_path, calls, lambda: busy[0]):
            await until(lambda: stores.batches.get(computed).status == "in_progress")
            stores.batches.cancel(cancelled)
            assert (await ended(stores, cancelled)).status == "cancelled"
            assert stores.batches.get(computed).status == "in_progress"

    asyncio.run(scenario())


def test_a_full_disk_stops_all_batches_until_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        stores = Stores(tmp_path)
        id = stores.create(2)
        state = stores.batches.folder(id) / "batch.json.new"
        state.symlink_to("/dev/full")  # where the batch's state is written first
        async with running(tmp_path, Calls()) as task:
            await until(lambda: "batches wait for some seconds: [Errno 28]" in caplog.text)
            assert not task.done() and stores.batches.get(id).status == "validating"
        state.unlink(missing_ok=True)
        async with running(tmp_path, Calls()):
            assert (await ended(stores, id)).status == "completed"

    asyncio.run(scenario())
