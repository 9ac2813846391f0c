"""Tests of the connection to an engine that the test controls."""

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest

from embedwell.compute.engine_connection import EngineConnection
from embedwell.engine.wire.engine_sockets import HttpProcessConnection, Message, pack
from embedwell.engine.wire.messages import Failure, Job, Result, pack_results, unpack_jobs
from embedwell.errors import EncodingFailed, EngineDied, EngineUnavailable
from embedwell_models.encoder.batch import FlatRows
from tests.service.rig import running

LONG = 60.0


class Engine:
    """Stores received messages; a text's vector is its first id."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket, self._connection = sock, HttpProcessConnection(sock, running())
        self._messages: list[Message] = []

    async def receive(self) -> Message:
        while not self._messages:
            await asyncio.sleep(0.001)
            self._messages += self._connection.receive(wait=False)
        return self._messages.pop(0)

    async def jobs(self) -> dict[int, Job]:
        (message_type, content), body = await self.receive()
        assert message_type == "jobs"
        return dict(unpack_jobs(content, body))

    def reply(self, jobs: dict[int, Job]) -> None:
        self._connection.send(*results_of(jobs))

    def close(self) -> None:
        self._socket.close()


def results_of(jobs: dict[int, Job]) -> Message:
    """The message that answers jobs."""

    def result(job: Job) -> Result | Failure:
        first = float(job.texts_ids[0][0])
        if first < 0:
            return Failure("negative", 0)
        return Result(np.array([[first]], dtype=np.float32), 0, 0, 1.0)

    return pack_results([(number, result(job)) for number, job in jobs.items()])


def test_a_cancelled_wait_for_the_description_does_not_prevent_closing() -> None:
    async def scenario() -> None:
        async with connect() as (connection, _):
            waiting = asyncio.create_task(connection.wait_loaded())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            connection.close(EngineUnavailable("over"))
            assert connection.lost.is_set()

    asyncio.run(scenario())


def test_the_loop_logs_no_error_of_a_description_that_nobody_waits_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with connect() as (connection, _):
            connection.close(EngineUnavailable("over"))

    asyncio.run(scenario())
    gc.collect()
    assert not caplog.records


@asynccontextmanager
async def connect() -> AsyncIterator[tuple[EngineConnection, Engine]]:
    client_end, engine_end = socket.socketpair()
    connection, engine = await EngineConnection.connect((client_end, running())), Engine(engine_end)
    try:
        yield connection, engine
    finally:
        connection.close(EngineUnavailable("over"))
        engine.close()
        await asyncio.sleep(0)  # the loop closes our end in its next turn


def test_a_job_for_a_connection_that_is_closing_fails_when_its_end_is_known() -> None:
    """Not before: the caller would take the engine for the current one, and send it again."""

    async def scenario() -> None:
        ends: list[bool] = []
        client_end, engine_end = socket.socketpair()
        connection = await EngineConnection.connect(
            (client_end, running()), lambda: ends.append(connection.lost.is_set())
        )
        connection._transport.abort()
        with pytest.raises(EngineDied) as died:
            await connection.submit(job(1), LONG)
        assert ends == [False], "the owner is told before any job fails"
        assert not died.value.computing, "the engine never had the job"
        engine_end.close()

    asyncio.run(scenario())


def job(first: int) -> Job:
    return Job("dense", FlatRows.of([np.array([first], dtype=np.int32)]))


def in_loop(test: Callable[[EngineConnection, Engine], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(120), connect() as (connection, engine):
            await test(connection, engine)

    asyncio.run(run())


def test_jobs_submitted_together_are_sent_as_one_message() -> None:
    async def test(connection: EngineConnection, engine: Engine) -> None:
        tasks = [asyncio.create_task(connection.submit(job(n), LONG)) for n in range(5)]
        jobs = await engine.jobs()
        assert len(jobs) == 5
        engine.reply(jobs)
        firsts = [float(result.vectors[0, 0]) for result in await asyncio.gather(*tasks)]
        assert firsts == [0, 1, 2, 3, 4]

    in_loop(test)


def test_a_failure_fails_its_own_job() -> None:
    async def test(connection: EngineConnection, engine: Engine) -> None:
        tasks = [asyncio.create_task(connection.submit(job(n), LONG)) for n in (1, -1)]
        engine.reply(await engine.jobs())
        good, bad = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(good, Result) and isinstance(bad, EncodingFailed)

    in_loop(test)


def test_a_cancelled_job_is_removed_from_the_queue() -> None:
    async def test(connection: EngineConnection, engine: Engine) -> None:
        task = asyncio.create_task(connection.submit(job(1), LONG))
        await asyncio.sleep(0)  # submitted, and not sent yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (number,) = await engine.jobs()
        assert (await engine.receive())[0] == ["cancel", number]

    in_loop(test)


def test_a_job_is_cancelled_after_its_timeout() -> None:
    async def test(connection: EngineConnection, engine: Engine) -> None:
        with pytest.raises(TimeoutError):
            await connection.submit(job(1), 0.05)
        jobs = await engine.jobs()
        assert (await engine.receive())[0][0] == "cancel"
        engine.reply(jobs)  # too late, and harmless
        again = asyncio.create_task(connection.submit(job(2), LONG))
        engine.reply(await engine.jobs())
        assert (await again).vectors[0, 0] == 2

    in_loop(test)


def test_a_result_that_arrives_as_its_job_is_cancelled_is_dropped() -> None:
    async def test(connection: EngineConnection, engine: Engine) -> None:
        task = asyncio.create_task(connection.submit(job(1), LONG))
        header, *body = results_of(await engine.jobs())
        task.cancel()
        connection.data_received(pack(header, *body))  # before the task goes on
        with pytest.raises(asyncio.CancelledError):
            await task

    in_loop(test)


def test_a_result_is_not_kept_until_the_timeout_of_its_job() -> None:
    async def test(connection: EngineConnection, engine: Engine) -> None:
        task = asyncio.create_task(connection.submit(job(1), LONG))
        engine.reply(await engine.jobs())
        vectors = weakref.ref((await task).vectors)
        del task
        await asyncio.sleep(0)  # the loop's call that went on with this test has the task
        gc.collect()
        assert vectors() is None

    in_loop(test)


def test_a_connection_has_room_for_jobs_of_many_texts() -> None:
    async def scenario() -> None:
        client_end, engine_end = socket.socketpair()
        usual = client_end.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        connection = await EngineConnection.connect((client_end, running()))
        assert client_end.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > usual
        connection.close(EngineUnavailable("over"))
        engine_end.close()

    asyncio.run(scenario())


def test_a_closed_connection_fails_waiting_and_later_jobs() -> None:
    async def test(connection: EngineConnection, engine: Engine) -> None:
        task = asyncio.create_task(connection.submit(job(1), LONG))
        await engine.jobs()
        connection.close(EngineUnavailable("died"))
        with pytest.raises(EngineUnavailable, match="died"):
            await task
        with pytest.raises(EngineUnavailable):
            await connection.submit(job(2), LONG)

    in_loop(test)


def test_an_engine_that_exits_fails_waiting_and_later_jobs() -> None:
    async def test(connection: EngineConnection, engine: Engine) -> None:
        task = asyncio.create_task(connection.submit(job(1), LONG))
        await engine.jobs()
        engine.close()
        with pytest.raises(EngineUnavailable, match="died"):
            await task
        assert connection.lost.is_set()
        with pytest.raises(EngineUnavailable):
            await connection.submit(job(1), LONG)

    in_loop(test)


def test_errors_of_a_dead_engine_say_which_jobs_it_was_computing() -> None:
    async def run() -> None:
        client_end, engine_end = socket.socketpair()
        table = running()
        connection, engine = await EngineConnection.connect((client_end, table)), Engine(engine_end)
        tasks = [asyncio.create_task(connection.submit(job(n), LONG)) for n in (5, 6)]
        jobs = await engine.jobs()
        [number] = [number for number, sent in jobs.items() if sent.texts_ids[0][0] == 6]
        table.begin(number)
        engine.close()
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        computing = [isinstance(error, EngineDied) and error.computing for error in errors]
        assert computing == [False, True]

    asyncio.run(run())
