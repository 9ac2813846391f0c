"""Tests of the pipeline, with an engine that fails on one text."""

import asyncio
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from embedwell.compute.admission import Admission, KnownRate
from embedwell.compute.pipeline import Pipeline
from embedwell.compute.request_limits import RequestCosts
from embedwell.compute.request_reader import RequestReader
from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.engine.wire.messages import Job, Result
from embedwell.errors import BadRequest, EncodingFailed, Overloaded, TooLarge
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE
from embedwell_models.outputs.text_outputs import SparseVector, TextOutputs
from embedwell_models.read.inputs import InputOptions, InputRow
from tests.service.pipelines import LONG, pipeline_of


@dataclass
class FailingEngine:
    """Fails on the text of one index, if a job has that many."""

    description = None
    index: int

    async def submit(self, job: Job, timeout: float) -> Result:
        if len(job.texts_ids) > self.index:
            raise EncodingFailed("it fails", index=self.index)
        return Result(np.ones((len(job.texts_ids), 384), dtype=np.float32), 5, 7, 1.0)


@dataclass
class RecordingEngine:
    """Records jobs."""

    description = None
    jobs: list[Job] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)

    async def submit(self, job: Job, timeout: float) -> Result:
        self.jobs.append(job)
        self.timeouts.append(timeout)
        return Result(np.ones((len(job.texts_ids), 384), dtype=np.float32), 0, 0, 1.0)


def rows_from(count: int) -> list[InputRow]:
    """Texts of ten tokens."""
    return [InputRow(np.array([index] * 10, dtype=np.int32), 0) for index in range(count)]


def test_the_size_class_of_a_job_is_that_of_the_request() -> None:
    engine = RecordingEngine()
    pipeline = pipeline_of(engine)
    asyncio.run(pipeline.dense(RequestCosts(), rows_from(9)))
    asyncio.run(pipeline.dense(RequestCosts(), rows_from(1)))
    asyncio.run(pipeline.dense_partial(RequestCosts(), rows_from(9)))
    all_texts, first, *each_text = engine.jobs
    assert (all_texts.size_class, first.size_class) == (1, 0)
    assert [job.size_class for job in each_text] == [1] * 9


def test_only_computed_tokens_count_as_queued() -> None:
    admission = Admission(1, KnownRate(1.0), SharedCounters.private())
    new, cached = (
        pipeline_of(RecordingEngine(), admission, cache_bytes=size) for size in (0, 1 << 20)
    )
    asyncio.run(cached.dense(RequestCosts(), rows_from(1)))
    with admission.admit(50):
        for work in (Pipeline.dense, Pipeline.dense_partial):
            with pytest.raises(Overloaded):
                asyncio.run(work(new, RequestCosts(), rows_from(1)))
            asyncio.run(work(cached, RequestCosts(), rows_from(1)))


def test_the_tokenization_time_reduces_the_timeout_of_the_engine() -> None:
    engine, context = RecordingEngine(), RequestCosts(tokenize_us=400_000)
    pipeline = pipeline_of(engine)
    asyncio.run(pipeline.dense(context, rows_from(1)))
    asyncio.run(pipeline.dense_partial(context, rows_from(1)))
    assert all(0 < timeout <= 0.6 for timeout in engine.timeouts) and len(engine.timeouts) == 2


def test_the_tokenization_time_leaves_less_of_the_timeout_to_wait() -> None:
    admission = Admission(1000, KnownRate(1.0), SharedCounters.private(), timeout=100)
    pipeline = pipeline_of(RecordingEngine(), admission)
    with admission.admit(30):
        asyncio.run(pipeline.dense(RequestCosts(), rows_from(1)))
        late = RequestCosts(tokenize_us=90_000_000)
        with pytest.raises(Overloaded):
            asyncio.run(pipeline.dense(late, rows_from(1)))


def test_cached_texts_do_not_count_in_the_times() -> None:
    pipeline, context = pipeline_of(FailingEngine(9), cache_bytes=1 << 20), RequestCosts()
    asyncio.run(pipeline.dense(RequestCosts(), rows_from(1)))
    asyncio.run(pipeline.dense_partial(context, rows_from(2)))
    assert (context.cached, context.queue_us, context.compute_us) == (1, 5, 7)


def test_the_times_of_jobs_one_after_the_other_add_up() -> None:
    pipeline, context = pipeline_of(FailingEngine(9)), RequestCosts()
    for _ in range(2):
        asyncio.run(pipeline.dense(context, rows_from(1)))
    assert (context.queue_us, context.compute_us) == (10, 14)


def test_a_job_has_the_prompts_of_those_texts_that_have_one() -> None:
    engine = RecordingEngine()
    rows = [replace(row, prompt_token_count=3 * index) for index, row in enumerate(rows_from(2))]
    asyncio.run(pipeline_of(engine).dense(RequestCosts(), rows))
    assert [*engine.jobs[0].prompt_token_counts] == [0, 3]


@pytest.mark.parametrize(("window", "owner"), [(0, 0), (1, 1), (3, 1), (4, 2)])
def test_a_window_that_fails_has_the_index_of_its_input(
    reader: RequestReader, window: int, owner: int
) -> None:
    pipeline = pipeline_of(FailingEngine(window))
    inputs, reading = ["short", LONG, "also short"], InputOptions(truncate=False, windows=True)
    rows = asyncio.run(reader.read(RequestCosts(), inputs, reading))
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(pipeline.dense(RequestCosts(), rows))
    assert failed.value.index == owner


def test_a_failed_input_does_not_affect_the_others(reader: RequestReader) -> None:
    context, reading = RequestCosts(), InputOptions(truncate=False, windows=True)
    pipeline = pipeline_of(FailingEngine(2))
    rows = asyncio.run(reader.read_partial(context, ["short", LONG, "also"], reading))
    first, second, third = asyncio.run(pipeline.dense_partial(context, rows))
    assert isinstance(second, EncodingFailed) and second.index == 1
    assert not isinstance(first, Exception) and not isinstance(third, Exception)
    assert (first[1] == 1).all() and (third[1] == 1).all()
    assert (context.queue_us, context.compute_us) == (5, 7)


def an_image() -> InputRow:
    pixels = np.zeros((2, 2, 3), dtype=np.uint8)
    return InputRow(np.empty(0, dtype=np.int32), 0, image_tokens=5, images=[pixels])


class FailingImageEngine(RecordingEngine):
    """Fails on the second image of a job."""

    async def submit(self, job: Job, timeout: float) -> Result:
        if job.image_tokens:
            raise EncodingFailed("it fails", index=1)
        return await super().submit(job, timeout)


def test_a_failing_image_has_its_index_among_the_inputs() -> None:
    pipeline = pipeline_of(FailingImageEngine())
    text = InputRow(np.ones(3, dtype=np.int32), 0)
    image = an_image()
    with pytest.raises(EncodingFailed) as caught:
        asyncio.run(pipeline.submit(RequestCosts(), [text, image, text, image, text], DENSE))
    assert caught.value.index == 3


class EchoEngine(RecordingEngine):
    """Returns the first id of each text, and the number of tokens of each image."""

    async def submit(self, job: Job, timeout: float) -> Result:
        numbers = [job.image_tokens or int(ids[0]) for ids in job.texts_ids]
        return Result(np.array(numbers, dtype=np.float32)[:, None], 0, 0, 1.0)


def test_texts_and_images_have_their_vectors_in_the_order_of_the_inputs() -> None:
    first, second = rows_from(2)
    rows = [first, an_image(), second, an_image()]
    vectors = asyncio.run(pipeline_of(EchoEngine()).dense(RequestCosts(), rows))
    assert vectors[:, 0].tolist() == [0, 5, 1, 5]


def test_windows_have_their_average_or_their_maximum() -> None:
    (short,), ids = rows_from(1), np.array([2, 0, 6, 0], dtype=np.int32)
    rows = [short, InputRow(ids, 0, windows=[ids[:2], ids[2:]], weights=[1, 3]), short]
    pipeline = pipeline_of(EchoEngine())
    assert asyncio.run(pipeline.dense(RequestCosts(), rows))[:, 0].tolist() == [0, 5, 0]
    assert asyncio.run(pipeline.logits(RequestCosts(), rows))[:, 0].tolist() == [0, 6, 0]


def test_an_image_next_to_a_page_has_no_vectors_of_its_tokens() -> None:
    page = replace(an_image(), ids=np.ones(3, dtype=np.int32))
    work = pipeline_of(RecordingEngine()).submit(RequestCosts(), [page, an_image()], MULTI)
    with pytest.raises(BadRequest, match="an image has only a dense vector"):
        asyncio.run(work)


class SparseEngine(RecordingEngine):
    """Computes a vector with one entry, the first id of the text."""

    async def submit(self, job: Job, timeout: float) -> Result:
        self.jobs.append(job)
        indices = [np.array(ids[:1], dtype=np.int32) for ids in job.texts_ids]
        vectors = [SparseVector(index, index.astype(np.float32)) for index in indices]
        columns = [TextOutputs(sparse=vector).pack() for vector in vectors]
        return Result(np.concatenate(columns), 5, 7, 1.0, [*map(len, columns)])


class StuckEngine(SparseEngine):
    """Computes its first job, and no other one until it is cancelled."""

    cancelled = 0

    async def submit(self, job: Job, timeout: float) -> Result:
        if self.jobs:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.cancelled += 1
        return await super().submit(job, timeout)


def sparse_pipeline(engine: RecordingEngine) -> tuple[Pipeline, Admission]:
    admission = Admission(1, KnownRate(0.0), SharedCounters.private())
    return pipeline_of(engine, admission, output_names=(SPARSE,)), admission


def first_index(text: TextOutputs) -> int:
    assert text.sparse is not None
    return int(text.sparse.indices[0])


@pytest.mark.parametrize("count", [0, 1, 16, 17, 70])
def test_outputs_computed_in_parts_keep_the_order_of_the_texts(count: int) -> None:
    engine, context = SparseEngine(), RequestCosts()
    pipeline, admission = sparse_pipeline(engine)
    kept = asyncio.run(pipeline.compute_in_parts(context, rows_from(count), [SPARSE], first_index))
    assert kept == [*range(count)]
    assert len({job.size_class for job in engine.jobs}) == bool(count)
    assert (context.queue_us, context.compute_us) == ((5, 7) if count else (0, 0))
    assert admission.queued_tokens == 0


class TimedEngine(SparseEngine):
    """Computes each part in a queue time and a compute time of its own."""

    times = {0: (9, 7), 16: (5, 3), 32: (6, 30), 48: (20, 1)}  # noqa: RUF012 - not changed

    async def submit(self, job: Job, timeout: float) -> Result:
        queue_us, compute_us = self.times[int(job.texts_ids[0][0])]
        result = await super().submit(job, timeout)
        return replace(result, queue_us=queue_us, compute_us=compute_us)


def test_the_time_of_parts_is_from_the_first_start_to_the_last_end() -> None:
    context = RequestCosts()
    pipeline, _ = sparse_pipeline(TimedEngine())
    asyncio.run(pipeline.compute_in_parts(context, rows_from(60), [SPARSE], first_index))
    assert (context.queue_us, context.compute_us) == (5, 31)


def test_a_response_that_became_too_large_is_not_computed_further() -> None:
    engine = StuckEngine()
    pipeline, admission = sparse_pipeline(engine)

    def refuse(text: TextOutputs) -> int:
        raise TooLarge(f"it has {admission.queued_tokens} tokens")

    with pytest.raises(TooLarge, match="it has 700 tokens"):
        asyncio.run(pipeline.compute_in_parts(RequestCosts(), rows_from(70), [SPARSE], refuse))
    assert (len(engine.jobs), engine.cancelled, admission.queued_tokens) == (1, 4, 0)


def test_a_cancelled_request_cancels_its_parts() -> None:
    engine = StuckEngine()
    pipeline, admission = sparse_pipeline(engine)

    async def cancel() -> None:
        work = pipeline.compute_in_parts(RequestCosts(), rows_from(40), [SPARSE], first_index)
        task = asyncio.create_task(work)
        while not engine.jobs:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert (engine.cancelled, admission.queued_tokens) == (2, 0)


class FailingSparseEngine(SparseEngine):
    """Fails on the second text of a part that begins with the 17th."""

    async def submit(self, job: Job, timeout: float) -> Result:
        if job.texts_ids[0][0] == 16:
            raise EncodingFailed("input 1 fails", index=1)
        return await super().submit(job, timeout)


def test_a_text_that_fails_in_a_part_has_its_index_among_the_inputs() -> None:
    pipeline, _ = sparse_pipeline(FailingSparseEngine())
    work = pipeline.compute_in_parts(RequestCosts(), rows_from(40), [SPARSE], first_index)
    with pytest.raises(EncodingFailed) as caught:
        asyncio.run(work)
    assert (caught.value.index, caught.value.message) == (17, "input 17 fails")


def test_images_have_no_outputs_in_parts() -> None:
    pipeline, _ = sparse_pipeline(SparseEngine())
    image = an_image()
    work = pipeline.compute_in_parts(RequestCosts(), [*rows_from(40), image], [SPARSE], first_index)
    with pytest.raises(BadRequest, match="an image has only a dense vector"):
        asyncio.run(work)
