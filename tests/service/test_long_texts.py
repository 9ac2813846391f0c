"""Texts of nearly the maximum size of a body, with a real server."""

import concurrent.futures
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.kinds import PROSE
from tests.service.server import Server

MB = 1 << 20
LONG = PROSE * (7_900_000 // len(PROSE))
HALVES = [LONG[: len(LONG) // 2], LONG[len(LONG) // 2 :]]
LONG_WORDS = " ".join(["x" * 150] * 50_000)  # each word is one unknown token
BODIES: dict[str, tuple[str, dict[str, object]]] = {
    "token vectors": ("/tokens", {"inputs": LONG}),
    "token vectors of long words": ("/tokens", {"inputs": LONG_WORDS}),
    "windows": ("/embed", {"inputs": LONG, "on_overflow": "mean"}),
    "details": ("/embed", {"inputs": LONG, "details": True}),
    "errors": ("/embed", {"inputs": LONG, "on_overflow": "error"}),
    "chunks": ("/embed", {"inputs": HALVES, "late_chunking": True}),
    "tokens": ("/tokenize", {"inputs": LONG}),
    "tokens of long words": ("/tokenize", {"inputs": LONG_WORDS}),
    "one word": ("/embed", {"inputs": "x" * 7_900_000}),
    "a prompt": ("/embed", {"inputs": ["a"] * 2000, "prompt": LONG}),
    "many": ("/embed", {"inputs": [LONG[start : start + 4000] for start in range(1900)]}),
}


@pytest.fixture(scope="module")
def hasty_server(
    minilm_folder: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("long") / "log", request_timeout=2) as server:
        yield server


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.full
def test_a_huge_text_is_answered_or_refused_in_time(hasty_server: Server, name: str) -> None:
    path, body = BODIES[name]
    response = hasty_server.post(path, body)
    assert response.status_code in (200, 400, 413, 504), response.text
    assert hasty_server.client.get("/ready").status_code == 200


@pytest.mark.full
def test_huge_texts_take_no_more_memory_than_a_few_bodies(hasty_server: Server) -> None:
    peak = Path(f"/proc/{hasty_server.process.pid}/status").read_text().split("VmHWM:")[1]
    assert int(peak.split()[0]) << 10 < 300 * MB


@pytest.mark.full
def test_tokenization_does_not_delay_the_shutdown(minilm_folder: object, tmp_path: Path) -> None:
    with (
        Server(tmp_path / "log", shutdown_timeout=1) as server,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        body = json.dumps({"inputs": LONG}).encode()
        requests = [pool.submit(server.client.post, "/tokens", content=body) for _ in range(8)]
        time.sleep(1)
        assert server.stop() == 0
        statuses = [request.result().status_code for request in requests]
    assert 503 in statuses and set(statuses) <= {200, 429, 503}
