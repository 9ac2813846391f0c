"""Vectors that come again, with an engine that notes what it is asked."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from models.vectors import Floats
from service.engine.protocol.messages import POOLED, Description, Job, Result
from service.errors import EncodingFailed
from service.inference.vector_cache import VectorCache
from tests.service.local_server import local_server
from tests.service.server import Server

WIDTH = 4
COST = WIDTH * 4 + 4 + 400  # bytes of the vector of one token id


def described() -> Description:
    """What an engine says that has just been started."""
    figures = [4, 256, 6, 512, 100, ["mean"], True, "bert", "cpu", "float32", [], 1, 512, "f", None]
    return Description(*figures)  # type: ignore[arg-type]


@dataclass
class Noting:
    """A text's vector is its ids' sum plus what is not pooled of it; it fails at the id 13."""

    description: Description | None = field(default_factory=described)
    asked: list[list[int]] = field(default_factory=list)

    async def submit(self, job: Job, timeout: float) -> Result:
        self.asked += [row.tolist() for row in job.rows]
        for index, row in enumerate(job.rows):
            if 13 in row:
                raise EncodingFailed("it fails", index=index)
        skips = job.skips or [0] * len(job.rows)
        sums = [row.sum() + 100 * skip for row, skip in zip(job.rows, skips, strict=True)]
        vectors = np.array(sums, dtype=np.float32)[:, None] * np.ones((1, WIDTH), np.float32)
        return Result(vectors, 5, 7, 1.0)


def ask(
    cache: VectorCache, *texts: Sequence[int], skips: Sequence[int] = (), output: str = POOLED
) -> Result:
    rows = [np.array(text, dtype=np.int32) for text in texts]
    return asyncio.run(cache.submit(Job(output, rows, skips), 1))


def first(result: Result) -> list[float]:
    """The first number of each vector."""
    assert result.vectors.shape[1] == WIDTH and result.vectors.dtype == np.float32
    return [float(number) for number in result.vectors[:, 0]]


@pytest.fixture
def engine() -> Noting:
    return Noting()


def test_only_what_is_new_is_computed_and_all_is_in_order(engine: Noting) -> None:
    cache = VectorCache(engine, 10 * COST)
    found = ask(cache, [1], [2, 3])
    assert (first(found), found.cached, found.compute_us) == ([1, 5], 0, 7)
    found = ask(cache, [2, 3], [4], [1], [6])
    assert (first(found), found.cached, found.queue_us) == ([5, 4, 1, 6], 2, 5)
    assert engine.asked == [[1], [2, 3], [4], [6]]
    found = ask(cache, [6])
    assert (first(found), found.cached, found.queue_us, found.compute_us) == ([6], 1, 0, 0)
    assert len(engine.asked) == 4


def test_the_load_of_a_job_is_what_is_computed_for_it(engine: Noting) -> None:
    cache = VectorCache(engine, 10 * COST)
    job = Job(POOLED, [np.array(text, dtype=np.int32) for text in ([1, 2, 3], [4], [1, 2, 3])])
    assert cache.computed_tokens(job) == 4
    ask(cache, [1, 2, 3])
    assert (
        cache.computed_tokens(job) == 1
        and cache.computed_tokens(replace(job, output=6)) == job.tokens == 7
    )
    engine.description = described()  # of another engine: the cache is void
    assert cache.computed_tokens(job) == 4


def test_a_text_that_is_twice_in_a_request_is_computed_once(engine: Noting) -> None:
    found = ask(VectorCache(engine, 10 * COST), [1], [2], [1])
    assert (first(found), found.cached) == ([1, 2, 1], 1)
    assert sorted(engine.asked) == [[1], [2]]


def test_the_same_ids_pooled_otherwise_are_another_text(engine: Noting) -> None:
    cache = VectorCache(engine, 10 * COST)
    assert first(ask(cache, [1, 2], [1, 2], skips=[0, 1])) == [3, 103]
    assert first(ask(cache, [1, 2], skips=[1])) == [103]
    assert first(ask(cache, [1, 2])) == [3]
    assert len(engine.asked) == 2


def test_hidden_states_are_not_kept(engine: Noting) -> None:
    cache = VectorCache(engine, 10 * COST)
    for _ in range(2):
        assert ask(cache, [1], output="token").cached == 0
    assert engine.asked == [[1], [1]]


def test_the_least_recently_used_makes_room(engine: Noting) -> None:
    cache = VectorCache(engine, 2 * COST)
    ask(cache, [1], [2])
    ask(cache, [1])
    assert first(ask(cache, [3])) == [3]
    assert ask(cache, [1]).cached == 1
    assert ask(cache, [2]).cached == 0


def test_more_than_there_is_room_for_is_answered_all_the_same(engine: Noting) -> None:
    cache = VectorCache(engine, 2 * COST)
    assert first(ask(cache, *([i] for i in range(9)))) == list(range(9))
    assert first(ask(cache, [8], [0], [8])) == [8, 0, 8]
    assert ask(VectorCache(engine, 1), [1]).cached == 0


def test_what_fails_is_told_at_its_place_and_nothing_of_it_is_kept(engine: Noting) -> None:
    cache = VectorCache(engine, 10 * COST)
    ask(cache, [1], [2])
    with pytest.raises(EncodingFailed) as failed:
        ask(cache, [1], [3], [2], [13])
    assert failed.value.index == 3
    assert ask(cache, [3]).cached == 0


def test_another_engine_computes_anew(engine: Noting) -> None:
    cache = VectorCache(engine, 2 * COST)
    ask(cache, [1], [2])
    engine.description = described()
    assert ask(cache, [1]).cached == 0
    assert ask(cache, [1], [3]).cached == 1
    assert ask(cache, [1], [3]).cached == 2, "what is gone does not count"


def test_a_kept_vector_does_not_hold_those_beside_it(engine: Noting) -> None:
    cache = VectorCache(engine, 10 * COST)
    whole = ask(cache, [1], [2]).vectors
    whole[:] = 9
    kept: list[Floats] = list(cache._vectors.values())
    assert [float(vector[0]) for vector in kept] == [1, 2]
    assert all(vector.base is None for vector in kept)


def test_a_server_says_what_it_did_not_compute(minilm_folder: Path) -> None:
    with local_server(minilm_folder, vector_cache_bytes=1 << 20) as server:
        body = {"inputs": ["one text", "another", "one text"]}
        before, after = (server.post("/embed", body) for _ in range(2))
        assert before.content == after.content
        assert [answer.headers["x-cached"] for answer in (before, after)] == ["1", "3"]
        assert after.headers["x-compute-us"] == "0"
        partial = {"inputs": ["one text", "new", ""], "partial": True}
        told = server.post("/embed", partial)
        assert told.headers["x-cached"] == "1" and int(told.headers["x-compute-us"]) > 0
        assert "\nembedding_cached_vectors_total 5.0\n" in server.client.get("/metrics").text
        other = server.post("/embed", {"inputs": "one text", "normalize": False})
        assert other.headers["x-cached"] == "1"
        assert server.client.get("/info").json()["vector_cache_bytes"] == 1 << 20


def test_a_server_keeps_nothing_unless_told_to(server: Server) -> None:
    for _ in range(2):
        assert server.post("/embed", {"inputs": "the same"}).headers["x-cached"] == "0"
