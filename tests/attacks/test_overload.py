"""More work than the engine can do: accepted requests are answered, small ones soon."""

import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
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


def test_a_query_among_bulk_requests_waits_for_few_batches(
    minilm_folder: object, tmp_path: Path
) -> None:
    # A text of 256 tokens is half a batch. In order of arrival, a query would wait for three lists,
    # which are 24 batches.
    texts = 16
    with (
        Server(tmp_path / "log", isa="avx2", max_wait=60, max_batch_tokens=512) as server,
        Load(server.url, 4, {"inputs": [" ".join(WORDS[:400])] * texts}) as bulk,
        Load(server.url, 1) as queries,
    ):
        server.wait_until(lambda: bulk.statuses[200] and queries.statuses[200], 120)
        lists, answered = bulk.statuses[200], queries.statuses[200]
        server.wait_until(lambda: bulk.statuses[200] >= lists + 4, 120)
        batches = (bulk.statuses[200] - lists) * texts // 2
        answered = queries.statuses[200] - answered
    sys.stdout.write(f"\n{answered} queries answered during {batches} batches of bulk requests\n")
    assert not queries.failures and not bulk.failures
    assert batches <= 4 * answered


def test_excess_small_requests_are_refused_with_retry_after(
    minilm_folder: object, tmp_path: Path
) -> None:
    body = {"inputs": [" ".join(WORDS[start : start + 100]) for start in range(0, 1000, 100)]}
    with (
        Server(tmp_path / "log", max_wait=0.5) as server,
        Load(server.url, 200, body) as small,
    ):
        server.wait_until(lambda: small.statuses[200] >= 4 and small.statuses[429] >= 400, 120)
    sys.stdout.write(f"\ntoo many small requests: {small.report()}, {dict(small.retry_after)}\n")
    assert set(small.statuses) == {200, 429}
    assert small.retry_after.total() == small.statuses[429] and min(small.retry_after) >= 1


def test_lists_of_many_clients_wait_and_none_is_lost(minilm_folder: object, tmp_path: Path) -> None:
    with Server(tmp_path / "log", max_wait=2) as server:
        started = time.monotonic()
        assert server.post("/embed", passages(100)).status_code == 200
        texts = round(0.75 * 100 / (time.monotonic() - started))  # 16 lists take 12 s
        texts = min(max(texts, 25), 500)  # more than a small request has
        with Load(server.url, 1, pause=0.1) as queries, ThreadPoolExecutor(16) as clients:
            body = passages(texts)
            responses = [clients.submit(server.post, "/embed", body) for _ in range(16)]
            statuses = [response.result().status_code for response in responses]
    sys.stdout.write(f"\n16 lists of {texts} texts: {statuses}; {queries.report()}\n")
    assert statuses == [200] * 16
    assert queries.statuses[200] and not queries.failures


def test_many_large_comparisons_are_refused_and_small_requests_pass(
    minilm_folder: object, tmp_path: Path
) -> None:
    vectors = [[index % 7] * 384 for index in range(700)]
    large = {"a": vectors, "b": vectors, "metric": "manhattan", "top_k": 1}
    small = {"a": "a text", "b": ["another text", "a third one"]}
    memory = {"max_buffered_bytes": 1 << 32}  # so that it is not the reason
    with (
        Server(tmp_path / "log", max_wait_large=0.1, **memory) as server,
        Load(server.url, 2, pause=0.02) as texts,
        ThreadPoolExecutor(16) as clients,
    ):
        responses = [*clients.map(lambda _: server.post("/similarity", large), range(16))]
        refused = [response for response in responses if response.status_code == 429]
        assert refused and {response.status_code for response in responses} == {200, 429}
        for response in refused:
            assert "s for comparing vectors, but" in response.text
            assert int(response.headers["retry-after"]) >= 1
        assert server.post("/similarity", small).status_code == 200
        server.wait_until(lambda: server.post("/similarity", large).status_code == 200)
    sys.stdout.write(f"\n{len(refused)} of 16 comparisons refused; texts: {texts.report()}\n")
    assert texts.statuses[200] and not texts.failures
