"""The client's end of the line, with an engine that answers when it is told."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest

from service.engine.host.client import Client
from service.engine.protocol.messages import Failure, Job, Result, pack_outcomes, unpack_jobs
from service.engine.protocol.wire import Message, WorkerConnection
from service.errors import EncodingFailed, EngineDied, EngineLost
from tests.service.rig import running

LONG = 60.0


class Engine:
    """Keeps what it is sent; a text's vector is its first id."""

    def __init__(self, end: socket.socket) -> None:
        self._socket, self._line = end, WorkerConnection(end, running())
        self._messages: list[Message] = []

    async def receive(self) -> Message:
        while not self._messages:
            await asyncio.sleep(0.001)
            self._messages += self._line.receive(wait=False)
        return self._messages.pop(0)

    async def jobs(self) -> dict[int, Job]:
        (verb, content), body = await self.receive()
        assert verb == "jobs"
        return dict(unpack_jobs(content, body))

    def answer(self, jobs: dict[int, Job]) -> None:
        def result(job: Job) -> Result | Failure:
            first = float(job.rows[0][0])
            if first < 0:
                return Failure("negative", 0)
            return Result(np.array([[first]], dtype=np.float32), 0, 0, 1.0)

        self._line.send(*pack_outcomes([(number, result(job)) for number, job in jobs.items()]))

    def close(self) -> None:
        self._socket.close()


def test_who_no_longer_waits_for_the_description_does_not_keep_a_line_open() -> None:
    async def scenario() -> None:
        async with line() as (client, _):
            waiting = asyncio.create_task(client.describe())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            client.close(EngineLost("over"))
            assert client.lost.is_set()

    asyncio.run(scenario())


@asynccontextmanager
async def line() -> AsyncIterator[tuple[Client, Engine]]:
    ours, theirs = socket.socketpair()
    client, engine = await Client.connect((ours, running())), Engine(theirs)
    try:
        yield client, engine
    finally:
        client.close(EngineLost("over"))
        engine.close()
        await asyncio.sleep(0)  # the loop closes our end in its next turn


def job(first: int) -> Job:
    return Job("pooled", [np.array([first], dtype=np.int32)])


def in_loop(test: Callable[[Client, Engine], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(120), line() as (client, engine):
            await test(client, engine)

    asyncio.run(run())


def test_what_is_submitted_together_goes_out_as_one_message() -> None:
    async def test(client: Client, engine: Engine) -> None:
        tasks = [asyncio.create_task(client.submit(job(n), LONG)) for n in range(5)]
        jobs = await engine.jobs()
        assert len(jobs) == 5
        engine.answer(jobs)
        found = [float(result.vectors[0, 0]) for result in await asyncio.gather(*tasks)]
        assert found == [0, 1, 2, 3, 4]

    in_loop(test)


def test_a_failure_fails_its_own_job() -> None:
    async def test(client: Client, engine: Engine) -> None:
        tasks = [asyncio.create_task(client.submit(job(n), LONG)) for n in (1, -1)]
        engine.answer(await engine.jobs())
        good, bad = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(good, Result) and isinstance(bad, EncodingFailed)

    in_loop(test)


def test_who_stops_waiting_takes_the_job_out_of_the_queue() -> None:
    async def test(client: Client, engine: Engine) -> None:
        task = asyncio.create_task(client.submit(job(1), LONG))
        await asyncio.sleep(0)  # submitted, and not sent yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (number,) = await engine.jobs()
        assert (await engine.receive())[0] == ["cancel", number]

    in_loop(test)


def test_a_job_is_given_up_after_its_time() -> None:
    async def test(client: Client, engine: Engine) -> None:
        with pytest.raises(TimeoutError):
            await client.submit(job(1), 0.05)
        jobs = await engine.jobs()
        assert (await engine.receive())[0][0] == "cancel"
        engine.answer(jobs)  # too late, and harmless
        again = asyncio.create_task(client.submit(job(2), LONG))
        engine.answer(await engine.jobs())
        assert (await again).vectors[0, 0] == 2

    in_loop(test)


def test_a_closed_line_fails_what_waits_and_what_comes() -> None:
    async def test(client: Client, engine: Engine) -> None:
        task = asyncio.create_task(client.submit(job(1), LONG))
        await engine.jobs()
        client.close(EngineLost("died"))
        with pytest.raises(EngineLost, match="died"):
            await task
        with pytest.raises(EngineLost):
            await client.submit(job(2), LONG)

    in_loop(test)


def test_an_engine_that_has_left_is_lost_to_who_waits_and_who_comes() -> None:
    async def test(client: Client, engine: Engine) -> None:
        task = asyncio.create_task(client.submit(job(1), LONG))
        await engine.jobs()
        engine.close()
        with pytest.raises(EngineLost, match="died"):
            await task
        assert client.lost.is_set()
        with pytest.raises(EngineLost):
            await client.submit(job(1), LONG)

    in_loop(test)


def test_when_an_engine_dies_its_client_says_which_jobs_it_was_computing() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        table = running()
        client, engine = await Client.connect((ours, table)), Engine(theirs)
        tasks = [asyncio.create_task(client.submit(job(n), LONG)) for n in (5, 6)]
        jobs = await engine.jobs()
        [number] = [number for number, each in jobs.items() if each.rows[0][0] == 6]
        table.begin(number)
        engine.close()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(each, EngineDied) and each.computing for each in found] == [False, True]

    asyncio.run(run())
