"""Tests of sessions with engines that the test controls."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

from embedwell.compute.engine_session import EngineSession, ReportedRate
from embedwell.engine.wire.engine_sockets import EngineSocket, MessageReader, pack
from embedwell.engine.wire.engine_state import (
    EngineProgress,
    EngineState,
    ModelState,
    SharedCounters,
)
from embedwell.engine.wire.messages import Job, Result, pack_results, unpack_jobs
from embedwell.errors import EngineUnavailable, ShuttingDown
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.outputs.names import DENSE
from tests.service.rig import running

DESCRIPTION = {
    **dict.fromkeys(("dim", "max_length", "num_layers", "max_positions", "vocab_size"), 1),
    **dict.fromkeys(("family", "device", "dtype", "fingerprint"), "x"),
    **{"pooling": ["mean"], "normalize": True, "trials": [], "threads": 1, "max_batch_tokens": 1},
    "kernels": None,
}
VECTOR = np.ones((1, 1), dtype=np.float32)


class Engine:
    """Computes the jobs whose number of tokens the test selects."""

    def __init__(self, computes: Callable[[int], bool]) -> None:
        self._computes, self._serving = computes, set[asyncio.Task[None]]()
        self.continues = asyncio.Event()  # while it is not set, results wait
        self.continues.set()

    def connect(self) -> EngineSocket:
        host_end, engine_end = socket.socketpair()
        self._serving.add(asyncio.create_task(self._serve(engine_end)))
        return host_end, running()

    async def _serve(self, end: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=end)
        writer.write(pack(["description", DESCRIPTION]))
        messages = MessageReader()
        while data := await reader.read(1 << 16):
            for (message_type, content), body in messages.feed(data):
                for number, job in unpack_jobs(content, body) if message_type == "jobs" else ():
                    if self._computes(len(job.texts_ids[0])):
                        await self.continues.wait()
                        writer.write(pack(*pack_results([(number, Result(VECTOR, 1, 2, 3.0))])))
        writer.close()


@contextlib.asynccontextmanager
async def ready_session(
    connect: Callable[[], EngineSocket], counters: SharedCounters | None = None, **options: Any
) -> AsyncIterator[EngineSession]:
    """Run a session during the block, which begins when its engine is ready."""
    current = EngineSession(connect, counters or SharedCounters.private(), **options)
    async with serving(current):
        await until(lambda: current.ready)
        yield current


@contextlib.asynccontextmanager
async def serving(current: EngineSession) -> AsyncIterator[None]:
    """Run a session during the block."""
    running = asyncio.create_task(current.run())
    yield
    running.cancel()
    await asyncio.wait([running])


def job(tokens: int) -> Job:
    return Job(DENSE, FlatRows.of([np.zeros(tokens, dtype=np.int32)]))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_hung_engine_receives_no_more_jobs_and_is_reported() -> None:
    async def run() -> None:
        stalls, computing = list[None](), [True]
        connect, counters = Engine(lambda tokens: computing[0]).connect, SharedCounters.private()
        async with ready_session(
            connect, counters, on_stall=lambda: stalls.append(None), probe_interval=0.01
        ) as current:
            computing.clear()
            computing.append(False)
            await until(lambda: not current.ready)
            with pytest.raises(EngineUnavailable, match="does not respond"):
                await current.submit(job(9), 60)
            assert not stalls
            await until(lambda: stalls)

    asyncio.run(run())


def test_a_hung_engine_is_reported_also_if_its_clients_give_up_early() -> None:
    async def run() -> None:
        stalls, computing, interval = list[None](), [True], 0.02
        connect = Engine(lambda tokens: computing[0]).connect
        async with ready_session(
            connect, on_stall=lambda: stalls.append(None), probe_interval=interval
        ) as current:
            await asyncio.sleep(5 * interval)  # no check runs
            computing[0] = False
            async with asyncio.timeout(60):
                while not stalls:
                    with contextlib.suppress(TimeoutError, EngineUnavailable):
                        await current.submit(job(9), 4 * interval)
                    await asyncio.sleep(2 * interval)

    asyncio.run(run())


def test_an_engine_that_was_slow_is_ready_with_its_next_result() -> None:
    async def run() -> None:
        engine = Engine(lambda tokens: True)
        async with ready_session(engine.connect, probe_interval=0.1) as current:
            engine.continues.clear()
            late = asyncio.create_task(current.submit(job(9), 60))
            await until(lambda: not current.ready)
            engine.continues.set()
            await late
            assert current.ready, "the next check need not come first"

    asyncio.run(run())


def test_an_idle_engine_is_probed_when_somebody_asks_whether_it_is_ready() -> None:
    async def run() -> None:
        probes, ready = list[int](), asyncio.Event()
        engine = Engine(lambda tokens: not probes.append(tokens))  # type: ignore[func-returns-value]
        current = EngineSession(
            engine.connect, SharedCounters.private(), lambda _: ready.set(), probe_interval=0.01
        )
        async with serving(current):
            async with asyncio.timeout(60):
                await ready.wait()
            await asyncio.sleep(0.1)
            assert len(probes) == 1 and current._next_check is None
            assert current.ready
            await until(lambda: len(probes) == 2)

    asyncio.run(run())


def test_an_engine_that_computes_a_long_batch_is_not_hung() -> None:
    async def run() -> None:
        stalls, computing = list[None](), [True]
        connect, counters = Engine(lambda tokens: computing[0]).connect, SharedCounters.private()
        current = EngineSession(
            connect, counters, on_stall=lambda: stalls.append(None), probe_interval=0.01
        )
        running = asyncio.create_task(current.run())
        await until(lambda: current.ready)
        computing[0], progress = False, EngineProgress(counters)
        waiting = asyncio.create_task(current.submit(job(9), 60))
        progress.begin("long", 1e6)
        for _ in range(50):
            await asyncio.sleep(0.01)
            assert current.ready
        assert not stalls and not waiting.done()
        running.cancel()
        await asyncio.wait([running, waiting])

    asyncio.run(run())


def test_a_connection_that_fails_is_requested_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        engine, full = Engine(lambda tokens: True), [OSError(errno.EMFILE, "Too many open files")]

        def connect() -> EngineSocket:
            if full:
                raise full.pop()
            return engine.connect()

        ready = asyncio.Event()
        current = EngineSession(connect, SharedCounters.private(), lambda _: ready.set())
        async with serving(current):
            async with asyncio.timeout(120):
                await ready.wait()

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "cannot connect to the engine: [Errno 24] Too many open files" in caplog.text


def test_the_description_is_known_before_the_first_result() -> None:
    # Else the vector cache could mix vectors of two engines.
    async def run() -> None:
        current = EngineSession(
            Engine(lambda tokens: tokens == 9).connect, SharedCounters.private()
        )
        async with serving(current):
            await until(lambda: current.connected)
            assert not current.ready
            await current.submit(job(9), 5)
            assert current.description is not None

    asyncio.run(run())


class Mortal(Engine):
    """Dies when the test says so."""

    def __init__(self) -> None:
        super().__init__(lambda tokens: True)
        self.ends: list[socket.socket] = []
        self.starting = True

    def connect(self) -> EngineSocket:
        if not self.starting:
            raise OSError
        host_end, engine_end = socket.socketpair()
        self.ends.append(engine_end.dup())
        self._serving.add(asyncio.create_task(self._serve(engine_end)))
        return host_end, running()

    def die(self) -> None:
        with self.ends.pop() as end:
            end.shutdown(socket.SHUT_RDWR)


def test_a_wait_for_an_engine_that_died_ends_with_the_next_one() -> None:
    async def run() -> None:
        engine = Mortal()
        current = EngineSession(engine.connect, SharedCounters.private())
        with pytest.raises(EngineUnavailable, match="no engine"):
            await current.wait_connected(60)  # it was never connected
        async with serving(current):
            await until(lambda: current.description)
            await current.wait_connected(60)
            engine.starting = False
            engine.die()
            await until(lambda: not current.connected)
            with pytest.raises(TimeoutError):
                await current.wait_connected(0.01)
            with pytest.raises(EngineUnavailable):
                await current.wait_connected(60, max_downtime=0.01)
            waiting = asyncio.create_task(current.wait_connected(60))
            engine.starting = True
            await waiting
            assert (await current.submit(job(9), 60)).vectors.tolist() == [[1]]
            engine.die()

    asyncio.run(run())


def test_the_first_requests_of_a_process_wait_for_an_engine_that_was_loaded_before_it() -> None:
    async def run() -> None:
        engine, counters = Mortal(), SharedCounters.private()
        current = EngineSession(engine.connect, counters)
        with pytest.raises(EngineUnavailable):
            await current.wait_connected(60)
        ModelState(counters).note_loaded(1.5)
        with pytest.raises(EngineUnavailable):
            await current.wait_connected(60, max_downtime=0.01)
        with pytest.raises(TimeoutError):
            await current.wait_connected(0.01)
        waiting = asyncio.create_task(current.wait_connected(60))
        async with serving(current):
            await waiting
            assert (await current.submit(job(9), 60)).vectors.tolist() == [[1]]
            engine.die()

    asyncio.run(run())


def test_no_request_waits_for_an_engine_that_will_never_start() -> None:
    async def run() -> None:
        engine = Mortal()
        current = EngineSession(engine.connect, SharedCounters.private())
        serving = asyncio.create_task(current.run())
        await until(lambda: current.ready)
        engine.starting = False
        engine.die()
        await until(lambda: not current.ready)
        waiting = asyncio.create_task(current.wait_connected(600, 600))
        await asyncio.sleep(0)
        current.abandon()
        with pytest.raises(ShuttingDown):
            await asyncio.wait_for(waiting, 60)
        with pytest.raises(ShuttingDown):
            await current.wait_connected(600, 600)
        with pytest.raises(ShuttingDown):
            await current.submit(job(9), 600)
        await asyncio.wait_for(serving, 60)

    asyncio.run(run())


def test_the_wait_for_a_restart_ends_some_time_after_the_engine_was_lost() -> None:
    async def run() -> None:
        engine = Mortal()
        async with ready_session(engine.connect) as current:
            current.state.note_loaded(1.0)
            engine.starting = False
            engine.die()
            await until(lambda: not current.ready)
            with pytest.raises(EngineUnavailable, match="no engine is ready"):
                await asyncio.wait_for(current.wait_connected(5000, 0.01), 120)

    asyncio.run(run())


def test_an_abandoned_engine_finishes_its_jobs() -> None:
    async def run() -> None:
        engine = Mortal()
        current = EngineSession(engine.connect, SharedCounters.private())
        serving = asyncio.create_task(current.run())
        await until(lambda: current.ready)
        current.abandon()
        assert (await current.submit(job(9), 60)).vectors.tolist() == [[1]]
        engine.die()
        await asyncio.wait_for(serving, 60)
        with pytest.raises(ShuttingDown):
            await current.wait_connected(600, 600)

    asyncio.run(run())


class OnDemand:
    """A current to an engine that is loaded when the test says so."""

    def __init__(self) -> None:
        self.counters, self.wanted = SharedCounters.private(), 0
        self.state = ModelState(self.counters)
        self.state.set(EngineState.UNLOADED)
        self.loaded = asyncio.Event()
        self._engine = Engine(lambda _: True)
        self.current = EngineSession(
            self._connect, self.counters, probe_interval=0.01, on_wanted=self._want
        )

    def _want(self) -> None:
        self.wanted += 1

    def _connect(self) -> EngineSocket:
        if not self.loaded.is_set():
            raise OSError("not loaded")
        return self._engine.connect()


def test_a_request_has_a_model_loaded_and_waits_for_that() -> None:
    async def run() -> None:
        model = OnDemand()
        with pytest.raises(EngineUnavailable):
            await model.current.submit(job(2), 60)
        waiting = asyncio.create_task(model.current.wait_connected(60))
        await until(lambda: model.wanted)
        model.state.set(EngineState.RUNNING)
        model.loaded.set()
        running = asyncio.create_task(model.current.run())
        await waiting
        assert (await model.current.submit(job(2), 60)).vectors == 1
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())


def test_a_request_that_would_wait_too_long_is_told_when_its_model_is_loaded() -> None:
    async def run() -> None:
        model = OnDemand()
        model.state.note_loaded(90.0)
        with pytest.raises(EngineUnavailable, match="in about 90 s") as lost:
            await model.current.wait_connected(60)
        assert lost.value.retry_after == 90
        assert model.wanted == 1, "it is loaded nevertheless"

    asyncio.run(run())


def test_a_model_that_could_not_be_loaded_is_not_tried_again_at_once() -> None:
    async def run() -> None:
        model = OnDemand()
        model.state.set(EngineState.FAILED)
        with pytest.raises(EngineUnavailable, match="could not be loaded") as lost:
            await model.current.wait_connected(60)
        assert 29 <= (lost.value.retry_after or 0) <= 30
        assert model.wanted == 0

    asyncio.run(run())


def test_the_rate_of_a_session_is_that_of_its_latest_engine() -> None:
    async def run() -> None:
        current = EngineSession(Engine(lambda tokens: True).connect, SharedCounters.private())
        rate = current.rate
        for reported in range(9):  # of an earlier engine
            rate.update(reported)
        assert rate.reliable_rate == 8
        async with serving(current):
            await until(lambda: current.ready)
            assert (rate.latest, rate.reliable_rate) == (3, 0), "those who hold it see the reports"

    asyncio.run(run())


class Clock:
    """Stands until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_rate_is_reliable_after_several_changes() -> None:
    rate = ReportedRate(Clock())
    assert rate.latest == rate.reliable_rate == 0
    for reported in (3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0):
        rate.update(reported)
        assert (rate.latest, rate.reliable_rate) == (reported, 0)
    rate.update(8.0)
    assert rate.latest == rate.reliable_rate == 8


def test_a_rate_that_was_measured_long_ago_is_not_reliable() -> None:
    clock = Clock()
    rate = ReportedRate(clock)
    for reported in range(1, 9):
        rate.update(reported)
    clock.now = 200
    rate.update(8)  # of a query, which measures nothing
    assert rate.reliable_rate == 8
    clock.now = 400
    rate.update(8)
    assert (rate.latest, rate.reliable_rate) == (8, 0)
    rate.update(9)
    assert rate.reliable_rate == 9
