"""Tests of the vector cache, with an engine that records its jobs."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from embedwell.compute.vector_cache import VectorCache
from embedwell.engine.wire.messages import (
    IMAGE,
    EngineDescription,
    Job,
    Result,
    pack_pixels,
)
from embedwell.errors import EncodingFailed
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.outputs.names import DENSE
from embedwell_models.vectors import Floats
from tests.service.local_server import local_server
from tests.service.server import Server

WIDTH = 4
COST = WIDTH * 4 + 4 + 400  # bytes of the vector of one token id


def described(fingerprint: str = "f") -> EngineDescription:
    """Description of a newly started engine."""
    figures = [4, 256, 6, 512, 100, ["mean"], True, "bert", "cpu", "float32", [], 1, 512]
    figures += [fingerprint, None]
    return EngineDescription(*figures)  # type: ignore[arg-type]


@dataclass
class RecordingEngine:
    """A text's vector is the sum of its ids plus 100 per skipped token; fails at the id 13."""

    description: EngineDescription | None = field(default_factory=described)
    computed: list[list[int]] = field(default_factory=list)

    async def submit(self, job: Job, timeout: float) -> Result:
        self.computed += [row.tolist() for row in job.texts_ids]
        for index, row in enumerate(job.texts_ids):
            if 13 in row:
                raise EncodingFailed("it fails", index=index)
        prompt_token_counts = job.prompt_token_counts or [0] * len(job.texts_ids)
        if job.output == "sparse":  # a row for each token
            counts = [*map(len, job.texts_ids)]
            rows = np.concatenate(job.texts_ids)[:, None].astype(np.float32)
            return Result(rows, 5, 7, 1.0, counts)
        sums = [
            row.sum() + 100 * prompt_token_count
            for row, prompt_token_count in zip(job.texts_ids, prompt_token_counts, strict=True)
        ]
        vectors = np.array(sums, dtype=np.float32)[:, None] * np.ones((1, WIDTH), np.float32)
        return Result(vectors, 5, 7, 1.0)


def submit_to(
    cache: VectorCache,
    *texts: Sequence[int],
    prompt_token_counts: Sequence[int] = (),
    output: str = DENSE,
) -> Result:
    rows = [np.array(text, dtype=np.int32) for text in texts]
    return asyncio.run(_compute(cache, Job(output, FlatRows.of(rows), prompt_token_counts)))


async def _compute(cache: VectorCache, job: Job) -> Result:
    return await cache.plan(job).compute(1)


def first(result: Result) -> list[float]:
    """Return the first number of each vector."""
    assert result.vectors.shape[1] == WIDTH and result.vectors.dtype == np.float32
    return [float(number) for number in result.vectors[:, 0]]


@pytest.fixture
def engine() -> RecordingEngine:
    return RecordingEngine()


def test_only_new_texts_are_computed_and_vectors_are_in_order(engine: RecordingEngine) -> None:
    cache = VectorCache(engine, 10 * COST)
    result = submit_to(cache, [1], [2, 3])
    assert (first(result), result.cached, result.compute_us) == ([1, 5], 0, 7)
    result = submit_to(cache, [2, 3], [4], [1], [6])
    assert (first(result), result.cached, result.queue_us) == ([5, 4, 1, 6], 2, 5)
    assert engine.computed == [[1], [2, 3], [4], [6]]
    result = submit_to(cache, [6])
    assert (first(result), result.cached, result.queue_us, result.compute_us) == ([6], 1, 0, 0)
    assert len(engine.computed) == 4


def test_computed_tokens_are_those_of_distinct_uncached_texts(engine: RecordingEngine) -> None:
    cache = VectorCache(engine, 10 * COST)
    job = Job(
        DENSE, FlatRows.of([np.array(text, dtype=np.int32) for text in ([1, 2, 3], [4], [1, 2, 3])])
    )
    assert cache.plan(job).tokens == 4
    submit_to(cache, [1, 2, 3])
    assert (
        cache.plan(job).tokens == 1 and cache.plan(replace(job, output=6)).tokens == job.tokens == 7
    )
    engine.description = described("g")
    assert cache.plan(job).tokens == 4


def test_a_repeated_text_is_computed_once(engine: RecordingEngine) -> None:
    result = submit_to(VectorCache(engine, 10 * COST), [1], [2], [1])
    assert (first(result), result.cached) == ([1, 2, 1], 1)
    assert sorted(engine.computed) == [[1], [2]]


def test_the_number_of_skipped_tokens_is_part_of_the_key(engine: RecordingEngine) -> None:
    cache = VectorCache(engine, 10 * COST)
    assert first(submit_to(cache, [1, 2], [1, 2], prompt_token_counts=[0, 1])) == [3, 103]
    assert first(submit_to(cache, [1, 2], prompt_token_counts=[1])) == [103]
    assert first(submit_to(cache, [1, 2])) == [3]
    assert len(engine.computed) == 2


def test_hidden_states_are_not_cached(engine: RecordingEngine) -> None:
    cache = VectorCache(engine, 10 * COST)
    for _ in range(2):
        assert submit_to(cache, [1], output="token").cached == 0
    assert engine.computed == [[1], [1]]


def test_outputs_of_several_rows_are_cached_apart_from_dense_vectors(
    engine: RecordingEngine,
) -> None:
    cache = VectorCache(engine, 10 * COST)
    submit_to(cache, [1, 2])
    for cached in (0, 2):
        result = submit_to(cache, [1, 2], [3], output="sparse")
        assert result.vectors.tolist() == [[1], [2], [3]] and list(result.row_counts) == [2, 1]
        assert result.cached == cached
    assert first(submit_to(cache, [1, 2])) == [3]
    assert engine.computed == [[1, 2], [1, 2], [3]]


def test_the_least_recently_used_vector_is_evicted(engine: RecordingEngine) -> None:
    cache = VectorCache(engine, 2 * COST)
    submit_to(cache, [1], [2])
    submit_to(cache, [1])
    assert first(submit_to(cache, [3])) == [3]
    assert submit_to(cache, [1]).cached == 1
    assert submit_to(cache, [2]).cached == 0


def test_a_job_larger_than_the_cache_is_computed(engine: RecordingEngine) -> None:
    cache = VectorCache(engine, 2 * COST)
    assert first(submit_to(cache, *([i] for i in range(9)))) == list(range(9))
    assert first(submit_to(cache, [8], [0], [8])) == [8, 0, 8]
    assert submit_to(VectorCache(engine, 1), [1]).cached == 0


def test_a_failure_has_the_index_in_the_job_and_nothing_is_cached(engine: RecordingEngine) -> None:
    cache = VectorCache(engine, 10 * COST)
    submit_to(cache, [1], [2])
    with pytest.raises(EncodingFailed) as failed:
        submit_to(cache, [1], [3], [2], [13])
    assert failed.value.index == 3
    assert submit_to(cache, [3]).cached == 0


def test_the_vectors_of_another_fingerprint_are_not_used(engine: RecordingEngine) -> None:
    cache = VectorCache(engine, 2 * COST)
    submit_to(cache, [1], [2])
    engine.description = described("g")
    assert submit_to(cache, [1]).cached == 0
    assert submit_to(cache, [1], [3]).cached == 1
    assert submit_to(cache, [1], [3]).cached == 2, "what is gone does not count"


def test_the_cache_outlives_an_engine(engine: RecordingEngine) -> None:
    cache = VectorCache(engine, 2 * COST)
    submit_to(cache, [1], [2])
    engine.description = described()
    assert submit_to(cache, [1], [2]).cached == 2


def test_a_cached_vector_is_not_a_view_of_its_batch(engine: RecordingEngine) -> None:
    cache = VectorCache(engine, 10 * COST)
    vectors = submit_to(cache, [1], [2]).vectors
    vectors[:] = 9
    cached_vectors: list[Floats] = list(cache._vectors.values())
    assert [float(vector[0, 0]) for vector in cached_vectors] == [1, 2]
    assert all(vector.base is None for vector in cached_vectors)


def test_a_server_reports_cached_vectors(minilm_folder: Path) -> None:
    with local_server(minilm_folder, vector_cache_bytes=1 << 20) as server:
        body = {"inputs": ["one text", "another", "one text"]}
        before, after = (server.post("/embed", body) for _ in range(2))
        assert before.content == after.content
        assert [response.headers["x-cached"] for response in (before, after)] == ["1", "3"]
        assert after.headers["x-compute-us"] == "0"
        partial = {"inputs": ["one text", "new", ""], "partial": True}
        response = server.post("/embed", partial)
        assert response.headers["x-cached"] == "1" and int(response.headers["x-compute-us"]) > 0
        assert "\nembedwell_cached_vectors_total 5.0\n" in server.client.get("/metrics").text
        unnormalized = server.post("/embed", {"inputs": "one text", "normalize": False})
        assert unnormalized.headers["x-cached"] == "1"
        assert server.client.get("/info").json()["vector_cache_bytes"] == 1 << 20


def test_the_cache_is_off_by_default(server: Server) -> None:
    for _ in range(2):
        assert server.post("/embed", {"inputs": "the same"}).headers["x-cached"] == "0"


def test_an_image_is_cached_by_its_pixels_and_counts_as_its_tokens() -> None:
    engine = RecordingEngine()
    cache = VectorCache(engine, 10**6)
    first, second = (pack_pixels(np.full((2, 2, 3), value, dtype=np.uint8)) for value in (1, 2))
    assert cache.plan(Job(IMAGE, FlatRows.of([first, first]), image_tokens=50)).tokens == 50
    asyncio.run(_compute(cache, Job(IMAGE, FlatRows.of([first]), image_tokens=50)))
    job = Job(IMAGE, FlatRows.of([second, first]), image_tokens=50)
    assert cache.plan(job).tokens == 50
    result = asyncio.run(_compute(cache, job))
    assert (result.cached, result.row_counts, result.vectors.shape) == (1, (), (2, WIDTH))
    assert engine.computed == [first.tolist(), second.tolist()]
    assert asyncio.run(_compute(cache, Job(DENSE, FlatRows.of([first])))).cached == 0
