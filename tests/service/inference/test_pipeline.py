"""The pipeline with an engine that fails on one text."""

import asyncio
from dataclasses import dataclass, field

import numpy as np
import pytest

from service.engine.protocol.messages import Job, Result
from service.errors import EncodingFailed, Overloaded
from service.inference.pipeline import Pipeline
from service.inputs.options import InputOptions
from service.inputs.reader import InputReader
from service.process.shared_counters import SharedCounters
from service.request.admission import Admission
from service.request.request_context import RequestContext
from tests.service.inputs.readers import LONG


@dataclass
class Failing:
    """Fails on the text of this index of a job that has one."""

    index: int

    async def submit(self, job: Job, timeout: float) -> Result:
        if len(job.rows) > self.index:
            raise EncodingFailed("it fails", index=self.index)
        return Result(np.ones((len(job.rows), 384), dtype=np.float32), 5, 7, 1.0)

    def computed_tokens(self, job: Job) -> int:
        return job.tokens


@dataclass
class Noting:
    """Remembers the jobs that it answers. known: tokens of each that it need not compute."""

    jobs: list[Job] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)
    known: int = 0

    async def submit(self, job: Job, timeout: float) -> Result:
        self.jobs.append(job)
        self.timeouts.append(timeout)
        return Result(np.ones((len(job.rows), 384), dtype=np.float32), 0, 0, 1.0)

    def computed_tokens(self, job: Job) -> int:
        return job.tokens - self.known


def test_the_size_of_a_job_is_that_of_the_whole_request(reader: InputReader) -> None:
    engine = Noting()
    pipeline = Pipeline(reader, Admission(1, lambda: 0.0, SharedCounters.private()), engine, 1)
    texts = ["one two three four five six seven eight"] * 9  # of ten tokens
    asyncio.run(pipeline.embed(RequestContext("a"), texts, InputOptions()))
    asyncio.run(pipeline.embed(RequestContext("a"), texts[:1], InputOptions()))
    asyncio.run(pipeline.embed_partial(RequestContext("a"), texts, InputOptions()))
    whole, alone, *parts = engine.jobs
    assert (whole.size_class, alone.size_class) == (1, 0)
    assert [part.size_class for part in parts] == [1] * 9


def test_only_what_is_computed_waits_in_the_queue(reader: InputReader) -> None:
    admission = Admission(1, lambda: 1.0, SharedCounters.private())
    with admission.admit(50):
        new, known = (Pipeline(reader, admission, Noting(known=each), 1) for each in (0, 4))
        for work in (Pipeline.embed, Pipeline.embed_partial):
            with pytest.raises(Overloaded):
                asyncio.run(work(new, RequestContext("a"), ["a text"], InputOptions()))
            asyncio.run(work(known, RequestContext("a"), ["a text"], InputOptions()))


def test_the_time_that_reading_took_is_not_waited_for_the_engine(reader: InputReader) -> None:
    engine, context = Noting(), RequestContext("a", tokenize_us=400_000)
    pipeline = Pipeline(reader, Admission(1, lambda: 0.0, SharedCounters.private()), engine, 1)
    asyncio.run(pipeline.embed(context, ["a text"], InputOptions()))
    asyncio.run(pipeline.embed_partial(context, ["a text"], InputOptions()))
    assert all(0 < timeout <= 0.6 for timeout in engine.timeouts) and len(engine.timeouts) == 2


@pytest.mark.parametrize(("window", "owner"), [(0, 0), (1, 1), (3, 1), (4, 2)])
def test_a_window_that_fails_is_told_of_the_input_that_it_is_part_of(
    reader: InputReader, window: int, owner: int
) -> None:
    pipeline = Pipeline(
        reader, Admission(1, lambda: 0.0, SharedCounters.private()), Failing(window), 1
    )
    inputs, reading = ["short", LONG, "also short"], InputOptions(truncate=False, windows=True)
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(pipeline.embed(RequestContext("a"), inputs, reading))
    assert failed.value.index == owner


def test_an_input_that_fails_alone_leaves_the_others(reader: InputReader) -> None:
    context, reading = RequestContext("a"), InputOptions(truncate=False, windows=True)
    pipeline = Pipeline(reader, Admission(1, lambda: 0.0, SharedCounters.private()), Failing(2), 1)
    first, second, third = asyncio.run(
        pipeline.embed_partial(context, ["short", LONG, "also"], reading)
    )
    assert isinstance(second, EncodingFailed) and second.index == 1
    assert not isinstance(first, Exception) and not isinstance(third, Exception)
    assert (first[1] == 1).all() and (third[1] == 1).all()
    assert (context.queue_us, context.compute_us) == (5, 7)
