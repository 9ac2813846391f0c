"""Tests of what becomes of jobs when engines die: an engine that dies of some ids, and restarts."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import numpy as np
import pytest

from service.engine.host.replay import Replay
from service.engine.protocol.messages import Description, Job, Result
from service.errors import EncodingFailed, EngineCrash, EngineDied, EngineLost
from service.process.shared_counters import SharedCounters
from tests.service.rig import ids

DEADLY, BAD = 13, 14
T = TypeVar("T")


class Engine:
    """Dies of the text that is deadly, and of as many others as it is told to.

    A text's vector is its first id. present: whether another engine starts when one has died.
    """

    def __init__(self, deaths: list[bool] | None = None, present: bool = True) -> None:
        """deaths: at the first submissions, whether the job was being computed."""
        self.deaths, self.present = deaths or [], present
        self.silent = 0
        self.submitted: list[Job] = []
        self.waits: list[float] = []
        self.description: Description | None = None

    def computed_tokens(self, job: Job) -> int:
        return job.tokens

    async def submit(self, job: Job, timeout: float) -> Result:
        await asyncio.sleep(0)
        self.submitted.append(job)
        if self.silent:
            self.silent -= 1
            raise EngineLost("it does not respond")
        if self.deaths:
            raise EngineDied(computing=self.deaths.pop(0))
        if any(DEADLY in row for row in job.rows):
            raise EngineDied(computing=True)
        if any(BAD in row for row in job.rows):
            raise EncodingFailed("bad", index=next(i for i, r in enumerate(job.rows) if BAD in r))
        vectors = np.array([[row[0]] for row in job.rows], dtype=np.float32)
        return Result(vectors, queue_us=5, compute_us=10, rate=1.0)

    async def connected(self, timeout: float, patience: float = 1.0) -> None:
        self.waits.append(patience)
        if not self.present:
            if patience > timeout:
                raise TimeoutError
            raise EngineLost("not there")


def job(*rows: list[int], **options: Any) -> Job:
    return Job("pooled", [ids(row) for row in rows], **options)


def run(work: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


def replay(engine: Engine) -> Replay:
    return Replay(engine, SharedCounters.private())


def test_a_job_that_waited_goes_to_the_next_engine_as_it_is() -> None:
    engine = Engine([False])
    found = replay(engine)
    sent = job([1], [2], skips=[1, 0])
    assert run(found.submit(sent, 60)).vectors.tolist() == [[1], [2]]
    assert engine.submitted == [sent, sent]
    assert (found.replayed, found.crashed) == (1, 0)


def test_the_texts_of_a_job_that_was_computed_are_tried_alone_and_answered_as_one() -> None:
    engine = Engine([True])
    result = run(replay(engine).submit(job([1], [2], [3], skips=[1, 0, 0]), 60))
    assert result.vectors.tolist() == [[1], [2], [3]]
    assert (result.queue_us, result.compute_us) == (5, 30)
    assert engine.submitted[1:] == [
        job([1], skips=[1], exclusive=True),
        job([2], skips=[0], exclusive=True),
        job([3], skips=[0], exclusive=True),
    ]


def test_an_innocent_text_survives_deaths_that_are_not_its_own() -> None:
    engine = Engine([True, False, True, False])
    assert run(replay(engine).submit(job([1]), 60)).vectors.tolist() == [[1]]
    assert [each.exclusive for each in engine.submitted] == [False, True, True, True, True]


def test_a_text_of_which_the_engine_dies_alone_is_named_and_not_tried_again() -> None:
    engine = Engine()
    found = replay(engine)
    with pytest.raises(EngineCrash) as crash:
        run(found.submit(job([1], [DEADLY], [3]), 60))
    error = crash.value
    assert (error.status, error.code, error.index) == (500, "engine_crash", 1)
    assert error.headers["x-should-retry"] == "false"
    before = len(engine.submitted)
    with pytest.raises(EngineCrash) as crash:
        run(found.submit(job([7], [8], [DEADLY]), 60))
    assert crash.value.index == 2 and len(engine.submitted) == before
    assert run(found.submit(job([1], [3]), 60)).vectors.tolist() == [[1], [3]]
    assert found.crashed == 1


class Starting(Engine):
    """Takes its time to start again, for the first who waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.started = asyncio.Event()

    async def connected(self, timeout: float, patience: float = 1.0) -> None:
        await super().connected(timeout, patience)
        if len(self.waits) == 1:
            await self.started.wait()


def test_a_text_that_is_refused_by_now_is_not_tried_for_who_sent_it_before() -> None:
    async def scenario() -> None:
        engine = Starting()
        found = replay(engine)
        early = asyncio.create_task(found.submit(job([1], [DEADLY]), 60))
        while not engine.waits:
            await asyncio.sleep(0)
        with pytest.raises(EngineCrash):
            await found.submit(job([DEADLY]), 60)
        before = len(engine.submitted)
        engine.started.set()
        with pytest.raises(EngineCrash) as crash:
            await early
        assert crash.value.index == 1 and found.crashed == 1
        assert engine.submitted[before:] == [job([1], exclusive=True)]

    run(scenario())


def test_a_text_that_fails_when_it_is_tried_alone_is_named() -> None:
    with pytest.raises(EncodingFailed, match="bad") as failed:
        run(replay(Engine([True])).submit(job([1], [2], [BAD]), 60))
    assert failed.value.index == 2


def test_a_job_is_not_given_to_engines_without_end() -> None:
    engine = Engine([False] * 99)
    with pytest.raises(EngineDied):
        run(replay(engine).submit(job([1]), 60))
    assert len(engine.submitted) == 7


def test_a_suspect_is_never_told_to_come_again() -> None:
    # A gateway would give it to another server, whose engine may die of it as well.
    engine = Engine([True] + [False] * 99)
    with pytest.raises(EngineCrash):
        run(replay(engine).submit(job([1]), 60))
    engine = Engine([True], present=False)
    with pytest.raises(TimeoutError):
        run(replay(engine).submit(job([1]), 60))


def test_a_suspect_waits_while_an_engine_hangs_and_others_are_told_to_come_again() -> None:
    async def scenario() -> None:
        engine = Engine([True])
        suspect = asyncio.create_task(replay(engine).submit(job([1]), 60))
        while not engine.submitted:
            await asyncio.sleep(0)
        engine.silent = 2
        assert (await suspect).vectors.tolist() == [[1]] and engine.silent == 0
        engine.silent = 99
        with pytest.raises(EngineLost, match="not respond"):
            await replay(engine).submit(job([1]), 60)

    run(scenario())


def test_where_no_engine_starts_a_job_is_told_so() -> None:
    engine = Engine([False], present=False)
    with pytest.raises(EngineLost, match="not there"):
        run(replay(engine).submit(job([1]), 60))


def test_a_job_whose_time_is_over_is_not_tried_again() -> None:
    engine = Engine([False])
    with pytest.raises(TimeoutError):
        run(replay(engine).submit(job([1], begun=-100.0), 60))
    assert len(engine.submitted) == 1
