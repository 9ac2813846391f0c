"""Tests of the pipeline, with an engine that fails on one text."""

import asyncio
from dataclasses import dataclass, field

import numpy as np
import pytest

from embedwell.engine.protocol.messages import Job, Result
from embedwell.errors import EncodingFailed, Overloaded
from embedwell.inference.pipeline import Pipeline
from embedwell.inputs.options import InputOptions
from embedwell.inputs.reader import InputReader
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.process.shared_counters import SharedCounters
from embedwell.request.admission import Admission
from embedwell.request.request_context import RequestContext
from embedwell_models.outputs.names import DENSE
from tests.service.inputs.readers import LONG


@dataclass
class FailingEngine:
    """Fails on the text of one index, if a job has that many."""

    index: int

    async def submit(self, job: Job, timeout: float) -> Result:
        if len(job.texts_ids) > self.index:
            raise EncodingFailed("it fails", index=self.index)
        return Result(np.ones((len(job.texts_ids), 384), dtype=np.float32), 5, 7, 1.0)

    def tokens_to_compute(self, job: Job) -> int:
        return job.tokens


@dataclass
class RecordingEngine:
    """Records jobs. cached: tokens of each that need not be computed."""

    jobs: list[Job] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)
    cached: int = 0

    async def submit(self, job: Job, timeout: float) -> Result:
        self.jobs.append(job)
        self.timeouts.append(timeout)
        return Result(np.ones((len(job.texts_ids), 384), dtype=np.float32), 0, 0, 1.0)

    def tokens_to_compute(self, job: Job) -> int:
        return job.tokens - self.cached


def test_the_size_class_of_a_job_is_that_of_the_request(reader: InputReader) -> None:
    engine = RecordingEngine()
    pipeline = Pipeline(reader, Admission(1, lambda: 0.0, SharedCounters.private()), engine, 1)
    texts = ["one two three four five six seven eight"] * 9  # of ten tokens
    asyncio.run(pipeline.embed(RequestContext("a"), texts, InputOptions()))
    asyncio.run(pipeline.embed(RequestContext("a"), texts[:1], InputOptions()))
    asyncio.run(pipeline.embed_partial(RequestContext("a"), texts, InputOptions()))
    all_texts, first, *each_text = engine.jobs
    assert (all_texts.size_class, first.size_class) == (1, 0)
    assert [job.size_class for job in each_text] == [1] * 9


def test_only_computed_tokens_count_as_queued(reader: InputReader) -> None:
    admission = Admission(1, lambda: 1.0, SharedCounters.private())
    with admission.admit(50):
        new, cached = (
            Pipeline(reader, admission, RecordingEngine(cached=tokens), 1) for tokens in (0, 4)
        )
        for work in (Pipeline.embed, Pipeline.embed_partial):
            with pytest.raises(Overloaded):
                asyncio.run(work(new, RequestContext("a"), ["a text"], InputOptions()))
            asyncio.run(work(cached, RequestContext("a"), ["a text"], InputOptions()))


def test_the_tokenization_time_reduces_the_timeout_of_the_engine(reader: InputReader) -> None:
    engine, context = RecordingEngine(), RequestContext("a", tokenize_us=400_000)
    pipeline = Pipeline(reader, Admission(1, lambda: 0.0, SharedCounters.private()), engine, 1)
    asyncio.run(pipeline.embed(context, ["a text"], InputOptions()))
    asyncio.run(pipeline.embed_partial(context, ["a text"], InputOptions()))
    assert all(0 < timeout <= 0.6 for timeout in engine.timeouts) and len(engine.timeouts) == 2


@pytest.mark.parametrize(("window", "owner"), [(0, 0), (1, 1), (3, 1), (4, 2)])
def test_a_window_that_fails_has_the_index_of_its_input(
    reader: InputReader, window: int, owner: int
) -> None:
    pipeline = Pipeline(
        reader, Admission(1, lambda: 0.0, SharedCounters.private()), FailingEngine(window), 1
    )
    inputs, reading = ["short", LONG, "also short"], InputOptions(truncate=False, windows=True)
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(pipeline.embed(RequestContext("a"), inputs, reading))
    assert failed.value.index == owner


def test_a_failed_input_does_not_affect_the_others(reader: InputReader) -> None:
    context, reading = RequestContext("a"), InputOptions(truncate=False, windows=True)
    pipeline = Pipeline(
        reader, Admission(1, lambda: 0.0, SharedCounters.private()), FailingEngine(2), 1
    )
    first, second, third = asyncio.run(
        pipeline.embed_partial(context, ["short", LONG, "also"], reading)
    )
    assert isinstance(second, EncodingFailed) and second.index == 1
    assert not isinstance(first, Exception) and not isinstance(third, Exception)
    assert (first[1] == 1).all() and (third[1] == 1).all()
    assert (context.queue_us, context.compute_us) == (5, 7)


class FailingImageEngine(RecordingEngine):
    """Fails on the second image of a job."""

    async def submit(self, job: Job, timeout: float) -> Result:
        if job.image_tokens:
            raise EncodingFailed("it fails", index=1)
        return await super().submit(job, timeout)


def test_a_failing_image_has_its_index_among_the_inputs(reader: InputReader) -> None:
    admission = Admission(1, lambda: 0.0, SharedCounters.private())
    pipeline = Pipeline(reader, admission, FailingImageEngine(), 1)
    text = TokenizedInput(np.ones(3, dtype=np.int32), 0)
    image = TokenizedInput(np.ones(12, dtype=np.int32), 0, image_tokens=5)
    with pytest.raises(EncodingFailed) as caught:
        asyncio.run(pipeline.submit(RequestContext("a"), [text, image, text, image, text], DENSE))
    assert caught.value.index == 3
