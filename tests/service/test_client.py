"""The client's end of the line, with an engine that answers when it is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import zmq

from service.engine.client import Client
from service.engine.messages import Failure, Job, Result, pack_outcomes, unpack_jobs
from service.errors import EncodingFailed, EngineLost

LONG = 60.0


class Engine:
    """Keeps what it is sent; a text's vector is its first id."""

    def __init__(self, address: str) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.bind(address)
        self._client = b""

    async def receive(self) -> tuple[bytes, list[bytes]]:
        while not self._socket.poll(0):
            await asyncio.sleep(0.001)
        self._client, verb, *frames = self._socket.recv_multipart()
        return verb, frames

    async def jobs(self) -> dict[int, Job]:
        verb, frames = await self.receive()
        assert verb == b"jobs"
        return dict(unpack_jobs(frames))

    def answer(self, jobs: dict[int, Job]) -> None:
        def result(job: Job) -> Result | Failure:
            first = float(job.rows[0][0])
            if first < 0:
                return Failure("negative", 0)
            return Result(np.array([[first]], dtype=np.float32), 0, 0, 1.0)

        frames = pack_outcomes([(number, result(job)) for number, job in jobs.items()])
        self._socket.send_multipart([self._client, b"outcomes", *frames])

    def close(self) -> None:
        self._socket.close(linger=0)


@asynccontextmanager
async def line(folder: Path) -> AsyncIterator[tuple[Client, Engine]]:
    address = f"ipc://{folder / 'engine'}"
    engine, client = Engine(address), Client(address)
    try:
        yield client, engine
    finally:
        client.close(EngineLost("over"))
        engine.close()


def job(first: int) -> Job:
    return Job("pooled", [np.array([first], dtype=np.int32)])


def in_loop(folder: Path, test: Callable[[Client, Engine], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(20), line(folder) as (client, engine):
            await test(client, engine)

    asyncio.run(run())


def test_what_is_submitted_together_goes_out_as_one_message(tmp_path: Path) -> None:
    async def test(client: Client, engine: Engine) -> None:
        tasks = [asyncio.create_task(client.submit(job(n), LONG)) for n in range(5)]
        jobs = await engine.jobs()
        assert len(jobs) == 5
        engine.answer(jobs)
        found = [float(result.vectors[0, 0]) for result in await asyncio.gather(*tasks)]
        assert found == [0, 1, 2, 3, 4]

    in_loop(tmp_path, test)


def test_a_failure_fails_its_own_job(tmp_path: Path) -> None:
    async def test(client: Client, engine: Engine) -> None:
        tasks = [asyncio.create_task(client.submit(job(n), LONG)) for n in (1, -1)]
        engine.answer(await engine.jobs())
        good, bad = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(good, Result) and isinstance(bad, EncodingFailed)

    in_loop(tmp_path, test)


def test_who_stops_waiting_takes_the_job_out_of_the_queue(tmp_path: Path) -> None:
    async def test(client: Client, engine: Engine) -> None:
        task = asyncio.create_task(client.submit(job(1), LONG))
        await asyncio.sleep(0)  # submitted, and not sent yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (number,) = await engine.jobs()
        assert await engine.receive() == (b"cancel", [b"%d" % number])

    in_loop(tmp_path, test)


def test_a_job_is_given_up_after_its_time(tmp_path: Path) -> None:
    async def test(client: Client, engine: Engine) -> None:
        with pytest.raises(TimeoutError):
            await client.submit(job(1), 0.05)
        jobs = await engine.jobs()
        assert (await engine.receive())[0] == b"cancel"
        engine.answer(jobs)  # too late, and harmless
        again = asyncio.create_task(client.submit(job(2), LONG))
        engine.answer(await engine.jobs())
        assert (await again).vectors[0, 0] == 2

    in_loop(tmp_path, test)


def test_a_closed_line_fails_what_waits_and_what_comes(tmp_path: Path) -> None:
    async def test(client: Client, engine: Engine) -> None:
        task = asyncio.create_task(client.submit(job(1), LONG))
        await engine.jobs()
        client.close(EngineLost("died"))
        with pytest.raises(EngineLost, match="died"):
            await task
        with pytest.raises(EngineLost):
            await client.submit(job(2), LONG)

    in_loop(tmp_path, test)
