"""More work than the engine can do: what is accepted is answered, and small requests soon."""

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
    dice = random.Random(0)
    starts = [dice.randrange(1000) for _ in range(count)]
    return {"inputs": [" ".join(WORDS[at : at + dice.randint(40, 180)]) for at in starts]}


def test_a_query_beside_bulk_waits_for_few_passes(minilm_folder: object, tmp_path: Path) -> None:
    with (
        Server(tmp_path / "log", isa="avx2", max_wait=60) as server,
        Load(server.url, 4, passages(8)) as bulk,
        Load(server.url, 1, pause=0.1) as queries,
    ):
        time.sleep(8)
    sys.stdout.write(f"\nqueries beside bulk: {queries.report()}; bulk: {bulk.report()}\n")
    assert queries.statuses[200] and not queries.lost
    assert bulk.statuses[200] and not bulk.lost


def test_of_small_requests_that_are_too_many_some_are_refused_and_the_others_are_soon_answered(
    minilm_folder: object, tmp_path: Path
) -> None:
    body = {"inputs": [" ".join(WORDS[at : at + 100]) for at in range(0, 1000, 100)]}
    with (
        Server(tmp_path / "log", max_wait=0.5) as server,
        Load(server.url, 200, body) as small,
    ):
        time.sleep(8)
    sys.stdout.write(f"\ntoo many small requests: {small.report()}, {dict(small.retry_after)}\n")
    assert set(small.statuses) == {200, 429}
    assert small.retry_after.total() == small.statuses[429] and min(small.retry_after) >= 1
