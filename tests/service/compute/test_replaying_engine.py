"""Tests of the jobs of engines that die, with an engine that some ids crash."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest

from embedwell.compute.replaying_engine import Quarantine, ReplayingEngine
from embedwell.engine.wire.engine_state import SharedCounters, counters_file
from embedwell.engine.wire.messages import IMAGE, EngineDescription, Job, Result, pack_pixels
from embedwell.errors import (
    EncodingFailed,
    EngineCrash,
    EngineDied,
    EngineUnavailable,
    EngineUnresponsive,
)
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.outputs.names import DENSE
from tests.service.rig import ids

DEADLY, BAD = 13, 14
T = TypeVar("T")


class Engine:
    """Crashes on the deadly text, and at as many other submissions as the test says.

    A text's vector is its first id. present: whether another engine starts when one has died.
    """

    def __init__(self, deaths: list[bool] | None = None, present: bool = True) -> None:
        """deaths: at the first submissions, whether the job was being computed."""
        self.deaths, self.present = deaths or [], present
        self.unresponsive = 0
        self.submitted: list[Job] = []
        self.waits: list[float] = []
        self.description: EngineDescription | None = None

    async def submit(self, job: Job, timeout: float) -> Result:
        await asyncio.sleep(0)
        self.submitted.append(job)
        if self.unresponsive:
            self.unresponsive -= 1
            raise EngineUnresponsive("it does not respond")
        if self.deaths:
            raise EngineDied(computing=self.deaths.pop(0))
        if any(DEADLY in row for row in job.texts_ids):
            raise EngineDied(computing=True)
        if any(BAD in row for row in job.texts_ids):
            raise EncodingFailed(
                "bad", index=next(i for i, r in enumerate(job.texts_ids) if BAD in r)
            )
        if job.is_packed:  # a row for each token
            rows = np.concatenate(job.texts_ids)[:, None].astype(np.float32)
            return Result(rows, 5, 10, 1.0, row_counts=[*map(len, job.texts_ids)])
        vectors = np.array([[row[0]] for row in job.texts_ids], dtype=np.float32)
        rate = float(len(self.submitted))
        return Result(vectors, queue_us=5, compute_us=10, rate=rate)

    async def wait_connected(self, timeout: float, max_downtime: float = 1.0) -> None:
        self.waits.append(max_downtime)
        if not self.present:
            if max_downtime > timeout:
                raise TimeoutError
            raise EngineUnavailable("not there")


def job(*rows: list[int], output: str | int = DENSE, **options: Any) -> Job:
    return Job(output, FlatRows.of([ids(row) for row in rows]), **options)


def fields(job: Job) -> tuple[list[int], Sequence[int], bool]:
    """The ids, the prompt token counts, and whether it is exclusive."""
    return job.texts_ids.ids.tolist(), job.prompt_token_counts, job.exclusive


def run(work: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


def replay(engine: Engine) -> ReplayingEngine:
    return ReplayingEngine(engine, SharedCounters.private())


def test_a_waiting_job_is_resubmitted_unchanged() -> None:
    engine = Engine([False])
    replaying = replay(engine)
    sent = job([1], [2], prompt_token_counts=[1, 0])
    assert run(replaying.submit(sent, 60)).vectors.tolist() == [[1], [2]]
    assert engine.submitted == [sent, sent]
    assert (replaying.replayed_jobs, replaying.quarantined_texts) == (1, 0)


def test_the_texts_of_a_job_that_was_computed_are_resubmitted_one_by_one() -> None:
    engine = Engine([True])
    result = run(replay(engine).submit(job([1], [2], [3], prompt_token_counts=[1, 0, 0]), 60))
    assert result.vectors.tolist() == [[1], [2], [3]]
    assert (result.queue_us, result.compute_us) == (5, 30)
    assert result.rate == len(engine.submitted), "that of the last text"
    assert [fields(sent) for sent in engine.submitted[1:]] == [
        ([1], [1], True),
        ([2], [0], True),
        ([3], [0], True),
    ]


def test_packed_results_computed_one_by_one_keep_their_sizes() -> None:
    sent = Job("sparse", FlatRows.of([ids([1, 2]), ids([3])]))
    result = run(replay(Engine([True])).submit(sent, 60))
    assert (result.vectors.tolist(), result.row_counts) == ([[1], [2], [3]], [2, 1])


def test_a_text_survives_crashes_that_it_did_not_cause() -> None:
    engine = Engine([True, False, True, False])
    assert run(replay(engine).submit(job([1]), 60)).vectors.tolist() == [[1]]
    assert [job.exclusive for job in engine.submitted] == [False, True, True, True, True]


def test_a_text_that_crashes_the_engine_alone_is_named_and_refused() -> None:
    engine = Engine()
    replaying = replay(engine)
    with pytest.raises(EngineCrash) as crash:
        run(replaying.submit(job([1], [DEADLY], [3]), 60))
    error = crash.value
    assert (error.status, error.code, error.index) == (500, "engine_crash", 1)
    assert error.headers["x-should-retry"] == "false"
    before = len(engine.submitted)
    with pytest.raises(EngineCrash) as crash:
        run(replaying.submit(job([7], [8], [DEADLY]), 60))
    assert crash.value.index == 2 and len(engine.submitted) == before
    assert run(replaying.submit(job([1], [3]), 60)).vectors.tolist() == [[1], [3]]
    assert replaying.quarantined_texts == 1


class Starting(Engine):
    """Delays the first wait until the test says that it has started."""

    def __init__(self) -> None:
        super().__init__()
        self.started = asyncio.Event()

    async def wait_connected(self, timeout: float, max_downtime: float = 1.0) -> None:
        await super().wait_connected(timeout, max_downtime)
        if len(self.waits) == 1:
            await self.started.wait()


def test_a_text_that_was_quarantined_meanwhile_is_not_resubmitted() -> None:
    async def scenario() -> None:
        engine = Starting()
        replaying = replay(engine)
        early = asyncio.create_task(replaying.submit(job([1], [DEADLY]), 60))
        while not engine.waits:
            await asyncio.sleep(0)
        with pytest.raises(EngineCrash):
            await replaying.submit(job([DEADLY]), 60)
        before = len(engine.submitted)
        engine.started.set()
        with pytest.raises(EngineCrash) as crash:
            await early
        assert crash.value.index == 1 and replaying.quarantined_texts == 1
        assert [fields(sent) for sent in engine.submitted[before:]] == [([1], (), True)]

    run(scenario())


def test_a_text_that_fails_alone_is_named() -> None:
    with pytest.raises(EncodingFailed, match="bad") as failed:
        run(replay(Engine([True])).submit(job([1], [2], [BAD]), 60))
    assert failed.value.index == 2


@pytest.mark.parametrize("computing", [False, True])
def test_crashes_that_other_texts_cause_do_not_count(computing: bool) -> None:
    engine = Engine([computing] + [False] * 99)
    replaying = replay(engine)
    assert run(replaying.submit(job([1]), 60)).vectors.tolist() == [[1]]
    assert len(engine.submitted) == 101 and replaying.quarantined_texts == 0


def test_a_suspected_job_is_never_answered_with_a_retry() -> None:
    # A gateway would send it to another server, and crash its engine, too.
    engine = Engine([True], present=False)
    with pytest.raises(TimeoutError):
        run(replay(engine).submit(job([1]), 60))


def test_a_suspected_job_waits_while_an_engine_hangs_and_others_fail() -> None:
    async def scenario() -> None:
        engine = Engine([True])
        suspect = asyncio.create_task(replay(engine).submit(job([1]), 60))
        while not engine.submitted:
            await asyncio.sleep(0)
        engine.unresponsive = 2
        assert (await suspect).vectors.tolist() == [[1]] and engine.unresponsive == 0
        engine.unresponsive = 99
        with pytest.raises(EngineUnavailable, match="not respond"):
            await replay(engine).submit(job([1]), 60)

    run(scenario())


def test_a_job_fails_if_no_engine_starts() -> None:
    engine = Engine([False], present=False)
    with pytest.raises(EngineUnavailable, match="not there"):
        run(replay(engine).submit(job([1]), 60))


def test_a_job_is_not_resubmitted_after_its_timeout() -> None:
    engine = Engine([False])
    with pytest.raises(TimeoutError):
        run(replay(engine).submit(job([1], created_at=-100.0), 60))
    assert len(engine.submitted) == 1


def test_a_job_is_sent_once_to_an_engine_that_does_not_respond() -> None:
    engine = Engine()
    engine.unresponsive = 99
    with pytest.raises(EngineUnresponsive):
        run(replay(engine).submit(job([1]), 60))
    assert len(engine.submitted) == 1


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_text_is_found_in_any_job_of_the_same_output() -> None:
    quarantine = Quarantine(SharedCounters.private())
    assert quarantine.find(job([1, 2])) is None
    quarantine.add(job([1, 2]))
    assert quarantine.find(job([3], [1, 2])) == 1
    assert quarantine.find(job([1], [2])) is None
    assert quarantine.find(job([1, 2], output=3)) is None


def test_a_text_is_released_after_ten_minutes() -> None:
    clock = Clock()
    quarantine = Quarantine(SharedCounters.private(), clock)
    quarantine.add(job([1]))
    clock.now = 300.0
    quarantine.add(job([2]))
    clock.now = 599.0
    assert quarantine.find(job([1])) == 0
    clock.now = 600.0
    assert quarantine.find(job([1])) is None and quarantine.find(job([2])) == 0


def test_of_too_many_texts_the_oldest_is_released() -> None:
    quarantine = Quarantine(SharedCounters.private())
    for number in range(65):
        quarantine.add(job([number]))
    assert quarantine.find(job([0])) is None
    assert quarantine.find(job([1])) == 0 and quarantine.find(job([64])) == 0


def test_a_text_is_quarantined_in_all_processes() -> None:
    with counters_file(2) as file:
        first, second = (Quarantine(SharedCounters.attach(file, 2, row)) for row in (0, 1))
        assert second.find(job([1])) is None
        first.add(job([1]))
        second.add(job([2]))
        assert [quarantine.find(job([3], [2], [1])) for quarantine in (first, second)] == [1, 1]
        assert first.added == second.added == 2


def test_an_image_is_found_by_its_pixels_and_is_no_text() -> None:
    quarantine = Quarantine(SharedCounters.private())
    pixels = [np.full((4, 4, 3), value, dtype=np.uint8) for value in (1, 2)]
    first, second = (
        Job(IMAGE, FlatRows.of([pack_pixels(each)]), image_tokens=5) for each in pixels
    )
    quarantine.add(first)
    both = FlatRows.join([second.texts_ids, first.texts_ids])
    assert quarantine.find(replace(second, texts_ids=both)) == 1
    assert quarantine.find(second) is None
    assert quarantine.find(replace(first, output="dense")) is None
