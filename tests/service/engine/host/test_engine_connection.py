"""The link to an engine that answers what it is told to."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

import numpy as np
import pytest

from service.engine.host.engine_connection import EngineConnection
from service.engine.protocol.fd_handoff import Connection
from service.engine.protocol.messages import POOLED, Job, Result, pack_outcomes, unpack_jobs
from service.engine.protocol.progress import Progress
from service.engine.protocol.wire import MessageReader, pack
from service.errors import EngineLost
from service.process.shared_counters import SharedCounters
from tests.service.rig import running

DESCRIPTION = {
    **dict.fromkeys(("dim", "max_length", "num_layers", "max_positions", "vocab_size"), 1),
    **dict.fromkeys(("family", "device", "dtype", "fingerprint"), "x"),
    **{"pooling": ["mean"], "normalize": True, "trials": [], "threads": 1, "max_batch_tokens": 1},
    "kernels": None,
}
VECTOR = np.ones((1, 1), dtype=np.float32)


class Engine:
    """Answers the jobs of so many tokens that it should."""

    def __init__(self, answers: Callable[[int], bool]) -> None:
        self._answers, self._serving = answers, set[asyncio.Task[None]]()

    def ask(self) -> Connection:
        ours, theirs = socket.socketpair()
        self._serving.add(asyncio.create_task(self._serve(theirs)))
        return ours, running()

    async def _serve(self, end: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=end)
        writer.write(pack(["description", DESCRIPTION]))
        messages = MessageReader()
        while data := await reader.read(1 << 16):
            for (verb, content), body in messages.feed(data):
                for number, job in unpack_jobs(content, body) if verb == "jobs" else ():
                    if self._answers(len(job.rows[0])):
                        writer.write(pack(*pack_outcomes([(number, Result(VECTOR, 1, 2, 3.0))])))
        writer.close()


def job(tokens: int) -> Job:
    return Job(POOLED, [np.zeros(tokens, dtype=np.int32)])


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


def test_an_engine_that_hangs_is_given_nothing_more_and_told_of() -> None:
    async def run() -> None:
        stalls, answering = list[None](), [True]
        ask, counters = Engine(lambda tokens: answering[0]).ask, SharedCounters.private()
        link = EngineConnection(ask, counters, on_stall=lambda: stalls.append(None), beat=0.01)
        running = asyncio.create_task(link.run())
        await until(lambda: link.embeds)
        answering.clear()
        answering.append(False)
        await until(lambda: not link.embeds)
        with pytest.raises(EngineLost, match="does not respond"):
            await link.submit(job(9), 60)
        assert not stalls
        await until(lambda: stalls)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())


def test_an_engine_that_computes_is_only_busy_though_it_answers_nothing() -> None:
    async def run() -> None:
        stalls, answering = list[None](), [True]
        ask, counters = Engine(lambda tokens: answering[0]).ask, SharedCounters.private()
        link = EngineConnection(ask, counters, on_stall=lambda: stalls.append(None), beat=0.01)
        running = asyncio.create_task(link.run())
        await until(lambda: link.embeds)
        answering[0], progress = False, Progress(counters)
        waiting = asyncio.create_task(link.submit(job(9), 60))
        progress.begin("long", 1e6)
        for _ in range(50):
            await asyncio.sleep(0.01)
            assert link.embeds
        assert not stalls and not waiting.done()
        running.cancel()
        await asyncio.wait([running, waiting])

    asyncio.run(run())


def test_a_line_that_cannot_be_had_is_asked_for_again_until_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        engine, full = Engine(lambda tokens: True), [OSError(errno.EMFILE, "Too many open files")]

        def ask() -> Connection:
            if full:
                raise full.pop()
            return engine.ask()

        ready = asyncio.Event()
        link = EngineConnection(ask, SharedCounters.private(), lambda _: ready.set())
        running = asyncio.create_task(link.run())
        async with asyncio.timeout(120):
            await ready.wait()
        running.cancel()
        await asyncio.wait([running])

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "cannot connect to the engine: [Errno 24] Too many open files" in caplog.text


def test_what_computes_is_described_before_its_first_answer() -> None:
    # Else vectors of another engine, of which some are kept, could be taken for its own.
    async def run() -> None:
        link = EngineConnection(Engine(lambda tokens: tokens == 9).ask, SharedCounters.private())
        running = asyncio.create_task(link.run())
        await asyncio.sleep(0.1)
        assert not link.embeds
        await link.submit(Job(POOLED, [np.zeros(9, dtype=np.int32)]), 5)
        assert link.description is not None
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())


class Mortal(Engine):
    """Dies when it is told to."""

    def __init__(self) -> None:
        super().__init__(lambda tokens: True)
        self.ends: list[socket.socket] = []
        self.starting = True

    def ask(self) -> Connection:
        if not self.starting:
            raise OSError
        ours, theirs = socket.socketpair()
        self.ends.append(theirs.dup())
        self._serving.add(asyncio.create_task(self._serve(theirs)))
        return ours, running()

    def die(self) -> None:
        with self.ends.pop() as end:
            end.shutdown(socket.SHUT_RDWR)


def test_who_waits_for_an_engine_that_died_gets_the_next_one() -> None:
    async def run() -> None:
        engine = Mortal()
        link = EngineConnection(engine.ask, SharedCounters.private())
        with pytest.raises(EngineLost, match="no engine"):
            await link.connected(60)  # it never was there, so nobody knows whether it will be
        serving = asyncio.create_task(link.run())
        while link.description is None:
            await asyncio.sleep(0.01)
        await link.connected(60)
        engine.starting = False
        engine.die()
        while link.embeds:
            await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            await link.connected(0.01)
        with pytest.raises(EngineLost):
            await link.connected(60, patience=0.01)
        waiting = asyncio.create_task(link.connected(60))
        engine.starting = True
        await waiting
        job = Job(POOLED, [np.zeros(9, dtype=np.int32)])
        assert (await link.submit(job, 60)).vectors.tolist() == [[1]]
        engine.die()
        serving.cancel()
        await asyncio.wait([serving])

    asyncio.run(run())


def test_a_link_in_place_of_another_makes_its_first_requests_wait_for_the_engine() -> None:
    async def run() -> None:
        engine = Mortal()
        link = EngineConnection(engine.ask, SharedCounters.private())
        link.expect_engine()
        with pytest.raises(TimeoutError):
            await link.connected(0.01)
        waiting = asyncio.create_task(link.connected(60))
        serving = asyncio.create_task(link.run())
        await waiting
        assert (await link.submit(job(9), 60)).vectors.tolist() == [[1]]
        engine.die()
        serving.cancel()
        await asyncio.wait([serving])

    asyncio.run(run())
