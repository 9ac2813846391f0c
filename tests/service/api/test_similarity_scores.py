"""Similarity scores, inline and in a thread."""

import asyncio
import threading
from dataclasses import dataclass, field

import numpy as np
import orjson
import pytest

from embedwell.api.similarity_scores import similarity_scores
from embedwell.errors import TooLarge
from embedwell_models.vectors import METRICS, Floats

RANDOM = np.random.default_rng(5)


@dataclass(frozen=True)
class Options:
    metric: str = "dot"
    mode: str = "matrix"
    top_k: int | None = None


def column(count: int) -> Floats:
    return RANDOM.normal(size=(count, 1)).astype(np.float32)


@dataclass
class ThreadRecorder:
    """Options that record which threads read them."""

    mode: str
    top_k: int | None
    threads: set[int] = field(default_factory=set)

    @property
    def metric(self) -> str:
        self.threads.add(threading.get_ident())
        return "dot"


@pytest.mark.parametrize(
    ("count", "in_thread", "mode", "top_k"),
    [
        (1400, True, "matrix", 1400),
        (1400, True, "matrix", None),
        (25_000, True, "pairwise", None),
        (10, False, "matrix", 10),
        (10, False, "pairwise", None),
    ],
)
def test_many_scores_are_computed_in_a_thread_and_few_inline(
    count: int, in_thread: bool, mode: str, top_k: int | None
) -> None:
    options = ThreadRecorder(mode, top_k)
    asyncio.run(similarity_scores(column(count), column(count), options, 4_000_000))
    assert options.threads and (threading.get_ident() not in options.threads) == in_thread


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("metric", METRICS)
def test_few_and_many_scores_are_the_same(metric: str, count: int) -> None:
    a, b = column(count), column(count)
    expected = METRICS[metric](a, b)
    actual = asyncio.run(similarity_scores(a, b, Options(metric), 4_000_000))
    assert np.array_equal(actual["scores"], expected)
    actual = asyncio.run(similarity_scores(a, b, Options(metric, "pairwise"), 4_000_000))
    np.testing.assert_allclose(actual["scores"], np.diag(expected), rtol=1e-6)
    actual = asyncio.run(similarity_scores(a, b, Options(metric, top_k=2), 4_000_000))
    for entries, row in zip(orjson.loads(orjson.dumps(actual["top"])), expected, strict=True):
        best = np.argsort(-row, kind="stable")[:2]
        assert entries == [{"index": i, "score": row[i].item()} for i in best]


@pytest.mark.parametrize("count", [3, 7, 30])
def test_equal_scores_keep_their_order(count: int) -> None:
    one, other = RANDOM.normal(size=(2, 1, 384)).astype(np.float32)
    equals = other.repeat(count, axis=0)
    actual = asyncio.run(similarity_scores(one, equals, Options("cosine", top_k=count), 4_000_000))
    (entries,) = orjson.loads(orjson.dumps(actual["top"]))
    assert [entry["index"] for entry in entries] == list(range(count))


def test_an_entry_of_top_k_is_two_numbers() -> None:
    few, many = column(10), column(30)
    asyncio.run(similarity_scores(few, many, Options(top_k=20), 400))
    with pytest.raises(TooLarge, match="the response would have 420 numbers, but the limit is 400"):
        asyncio.run(similarity_scores(few, many, Options(top_k=21), 400))
    with pytest.raises(TooLarge, match="the response would have 600 numbers"):
        asyncio.run(similarity_scores(few, many, Options(top_k=99), 500))
