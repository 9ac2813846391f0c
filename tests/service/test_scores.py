"""Tests of scores, and of what an event loop does while there are many to compute."""

import asyncio
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import orjson
import pytest

from models.vectors import METRICS, Floats
from service.api.scores import compare
from service.errors import TooLarge

RANDOM = np.random.default_rng(5)


@dataclass(frozen=True)
class Asked:
    metric: str = "dot"
    mode: str = "matrix"
    top_k: int | None = None


def column(count: int) -> Floats:
    return RANDOM.normal(size=(count, 1)).astype(np.float32)


async def standstill(a: Floats, b: Floats, asked: Asked) -> float:
    """The longest that the loop waited for a comparison, as a part of the time that this took."""
    comparing = asyncio.create_task(compare(a, b, asked, 4_000_000))
    moments = [time.perf_counter()]
    while not comparing.done():
        await asyncio.sleep(0.001)
        moments.append(time.perf_counter())
    waits = [after - before for before, after in pairwise(moments)]
    return max(waits) / sum(waits)


@pytest.mark.parametrize(
    ("count", "asked"), [(1400, Asked(top_k=1400)), (25_000, Asked("cosine", "pairwise"))]
)
def test_the_event_loop_does_not_wait_for_many_scores(count: int, asked: Asked) -> None:
    runs = (asyncio.run(standstill(column(count), column(count), asked)) for _ in range(9))
    assert any(part < 0.3 for part in runs)  # whatever else the machine is doing


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("metric", METRICS)
def test_few_and_many_are_compared_alike(metric: str, count: int) -> None:
    a, b = column(count), column(count)
    expected = METRICS[metric](a, b)
    found = asyncio.run(compare(a, b, Asked(metric), 4_000_000))
    assert np.array_equal(found["scores"], expected)
    found = asyncio.run(compare(a, b, Asked(metric, "pairwise"), 4_000_000))
    np.testing.assert_allclose(found["scores"], np.diag(expected), rtol=1e-6)
    found = asyncio.run(compare(a, b, Asked(metric, top_k=2), 4_000_000))
    for entries, row in zip(orjson.loads(orjson.dumps(found["top"])), expected, strict=True):
        best = np.argsort(-row, kind="stable")[:2]
        assert entries == [{"index": i, "score": row[i].item()} for i in best]


def test_an_entry_of_top_k_is_two_numbers() -> None:
    few, many = column(10), column(30)
    asyncio.run(compare(few, many, Asked(top_k=20), 400))
    with pytest.raises(TooLarge, match="the answer has 420 numbers, the limit is 400"):
        asyncio.run(compare(few, many, Asked(top_k=21), 400))
    with pytest.raises(TooLarge, match="the answer has 600 numbers"):
        asyncio.run(compare(few, many, Asked(top_k=99), 500))
