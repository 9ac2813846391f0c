"""Several engines of one model, with sessions that the test controls."""

import asyncio
import math
from collections.abc import Coroutine

import numpy as np
import pytest

from embedwell.compute.engine_session import EngineSession
from embedwell.compute.engine_set import EngineSet
from embedwell.compute.replaying_engine import ReplayingEngine
from embedwell.engine.wire.engine_sockets import EngineSocket
from embedwell.engine.wire.engine_state import EngineState, SharedCounters
from embedwell.engine.wire.messages import Job, Result
from embedwell.errors import EngineDied, EngineUnavailable, EngineUnresponsive
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.outputs.names import DENSE

RESULT = Result(np.ones((1, 1), dtype=np.float32), 1, 2, 3.0)


class Session(EngineSession):
    """Accepts jobs if it is up, and computes them when the test allows it."""

    def __init__(self, up: bool = True, responds: bool = True, rate: float = 0.0) -> None:
        super().__init__(_no_connection, SharedCounters.private())
        self.up, self.responds, self.jobs = up, responds, list[int]()
        self.computing, self.dies = asyncio.Event(), False
        for report in range(6):  # the rate is reliable after several changes
            self.rate.update(rate + (report - 5) * (rate > 0))

    @property
    def connected(self) -> bool:
        return self.up

    @property
    def accepts_jobs(self) -> bool:
        return self.up and self.responds

    def submit(self, job: Job, timeout: float) -> Coroutine[None, None, Result]:
        if not self.up:
            raise EngineUnavailable("down")
        if not self.responds:
            raise EngineUnresponsive("hangs")
        return self._compute(job)

    async def _compute(self, job: Job) -> Result:
        self.jobs.append(job.tokens)
        await self.computing.wait()
        if self.dies:
            self.up = False
            raise EngineDied(computing=False)
        return RESULT

    async def wait_connected(self, timeout: float, max_downtime: float = math.inf) -> None:
        await asyncio.sleep(0.001)
        if not self.up:
            raise EngineUnavailable("not restarted")


def _no_connection() -> EngineSocket:
    raise OSError


def engine_set(*sessions: Session) -> EngineSet:
    return EngineSet({f"cpu#{number}": session for number, session in enumerate(sessions)})


def job(tokens: int) -> Job:
    return Job(DENSE, FlatRows.of([np.zeros(tokens, dtype=np.int32)]))


async def computed(engines: EngineSet, *tokens: int) -> list[asyncio.Task[Result]]:
    """Submit jobs of so many tokens one after another, and let them begin."""
    replay = ReplayingEngine(engines, SharedCounters.private())
    tasks = []
    for count in tokens:
        tasks.append(asyncio.create_task(replay.submit(job(count), 60)))
        await asyncio.sleep(0)
    return tasks


def test_a_job_goes_to_the_engine_with_the_fewest_outstanding_tokens() -> None:
    async def run() -> None:
        first, second = Session(), Session()
        engines = engine_set(first, second)
        [long, *_] = await computed(engines, 100, 30, 30, 30, 30, 5)
        assert (first.jobs, second.jobs) == ([100, 5], [30, 30, 30, 30])
        long.cancel()  # its tokens count no longer
        await asyncio.sleep(0)
        await computed(engines, 7)
        assert first.jobs == [100, 5, 7]
        second.computing.set()
        await asyncio.sleep(0.01)
        await computed(engines, 9)
        assert second.jobs[-1] == 9

    asyncio.run(run())


def test_tokens_of_other_http_processes_count() -> None:
    class Shared(Session):
        def __init__(self, counters: SharedCounters) -> None:
            super().__init__()
            self.counters = counters

    async def run() -> None:
        memory = [bytearray(2 * 8192 * 8) for _ in range(2)]
        processes = [
            [Shared(SharedCounters(each, 2, row)) for each in memory]  # type: ignore[arg-type]
            for row in range(2)
        ]
        ours, theirs = (engine_set(*sessions) for sessions in processes)
        await computed(theirs, 50)
        await computed(ours, 20)
        assert [session.jobs for session in processes[0]] == [[], [20]]

    asyncio.run(run())


@pytest.mark.parametrize("session", [{"up": False}, {"responds": False}], ids=["down", "hangs"])
def test_an_engine_that_is_down_or_hangs_is_left_out(session: dict[str, bool]) -> None:
    async def run() -> None:
        unusable, usable = Session(**session, rate=50.0), Session(rate=70.0)
        engines = engine_set(unusable, usable)
        await computed(engines, 100, 100)
        assert (unusable.jobs, usable.jobs) == ([], [100, 100])
        assert engines.rate.latest == 70.0

    asyncio.run(run())


def test_the_jobs_of_an_engine_that_dies_move_to_another() -> None:
    async def run() -> None:
        dying, other = Session(), Session()
        tasks = await computed(engine_set(dying, other), 8, 9)
        other.computing.set()
        dying.dies = True
        dying.computing.set()
        assert await asyncio.gather(*tasks) == [RESULT, RESULT]
        assert (dying.jobs, other.jobs) == ([8], [9, 8])

    asyncio.run(run())


def test_a_job_is_refused_if_an_engine_hangs_and_no_other_is_up() -> None:
    async def run() -> None:
        [task] = await computed(engine_set(Session(up=False), Session(responds=False)), 1)
        with pytest.raises(EngineUnresponsive):
            await task

    asyncio.run(run())


def test_a_wait_ends_with_the_first_engine_or_when_all_have_failed() -> None:
    async def run() -> None:
        down, other = Session(up=False), Session(up=False)
        engines = engine_set(down, other)
        with pytest.raises(EngineUnavailable, match="not restarted"):
            await engines.wait_connected(60)
        wait = asyncio.create_task(engines.wait_connected(60))
        await asyncio.sleep(0)
        other.up = True
        await wait

    asyncio.run(run())


def test_rates_are_summed_but_one_engine_computes_a_job() -> None:
    rate = engine_set(Session(rate=50.0), Session(rate=70.0)).rate
    assert (rate.latest, rate.reliable_rate) == (120.0, 70.0)
    down = engine_set(Session(up=False, rate=50.0), Session(up=False, rate=70.0)).rate
    assert down.latest == 120.0


def test_the_model_runs_while_an_engine_does() -> None:
    first, second = Session(), Session()
    engines = engine_set(first, second)
    states = []
    for failed in (first, second):
        failed.state.set(EngineState.FAILED)
        states.append(engines.state.engine)
    assert states == [EngineState.RUNNING, EngineState.FAILED]
