"""More work than the engine can do: accepted requests are answered, small ones soon."""

import random
import sys
import time
from pathlib import Path

import pytest

from tests.attacks.load import Load
from tests.conftest import WORDS
from tests.service.server import Server

pytestmark = pytest.mark.attack


def passages(count: int) -> dict[str, object]:
    generator = random.Random(0)
    starts = [generator.randrange(1000) for _ in range(count)]
    return {
        "inputs": [" ".join(WORDS[start : start + generator.randint(40, 180)]) for start in starts]
    }


def test_a_query_beside_bulk_requests_waits_for_few_batches(
    minilm_folder: object, tmp_path: Path
) -> None:
    with (
        Server(tmp_path / "log", isa="avx2", max_wait=60) as server,
        Load(server.url, 4, passages(8)) as bulk,
        Load(server.url, 1, pause=0.1) as queries,
    ):
        time.sleep(8)
    sys.stdout.write(f"\nqueries beside bulk: {queries.report()}; bulk: {bulk.report()}\n")
    assert queries.statuses[200] and not queries.failures
    assert bulk.statuses[200] and not bulk.failures


def test_excess_small_requests_are_refused_with_retry_after(
    minilm_folder: object, tmp_path: Path
) -> None:
    body = {"inputs": [" ".join(WORDS[start : start + 100]) for start in range(0, 1000, 100)]}
    with (
        Server(tmp_path / "log", max_wait=0.5) as server,
        Load(server.url, 200, body) as small,
    ):
        time.sleep(8)
    sys.stdout.write(f"\ntoo many small requests: {small.report()}, {dict(small.retry_after)}\n")
    assert set(small.statuses) == {200, 429}
    assert small.retry_after.total() == small.statuses[429] and min(small.retry_after) >= 1
