"""Texts as long as a body may be, against a running server."""

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
SPARSE = " ".join(["x" * 150] * 50_000)  # each word is one unknown token
BODIES: dict[str, tuple[str, dict[str, object]]] = {
    "token vectors": ("/tokens", {"inputs": LONG}),
    "token vectors of long words": ("/tokens", {"inputs": SPARSE}),
    "windows": ("/embed", {"inputs": LONG, "on_overflow": "mean"}),
    "details": ("/embed", {"inputs": LONG, "details": True}),
    "errors": ("/embed", {"inputs": LONG, "on_overflow": "error"}),
    "chunks": ("/embed", {"inputs": HALVES, "late_chunking": True}),
    "tokens": ("/tokenize", {"inputs": LONG}),
    "tokens of long words": ("/tokenize", {"inputs": SPARSE}),
    "one word": ("/embed", {"inputs": "x" * 7_900_000}),
    "a prompt": ("/embed", {"inputs": ["a"] * 2000, "prompt": LONG}),
    "many": ("/embed", {"inputs": [LONG[start : start + 4000] for start in range(1900)]}),
}


@pytest.fixture(scope="module")
def target(minilm_folder: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("long") / "log", request_timeout=2) as running:
        yield running


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.full
def test_it_is_answered_refused_or_given_up_in_time(target: Server, name: str) -> None:
    path, body = BODIES[name]
    answer = target.post(path, body)
    assert answer.status_code in (200, 400, 413, 504), answer.text
    assert target.client.get("/ready").status_code == 200


@pytest.mark.full
def test_none_of_it_took_more_memory_than_a_few_bodies(target: Server) -> None:
    peak = Path(f"/proc/{target.process.pid}/status").read_text().split("VmHWM:")[1]
    assert int(peak.split()[0]) << 10 < 300 * MB


@pytest.mark.full
def test_what_is_still_read_does_not_keep_the_server_from_stopping(
    minilm_folder: object, tmp_path: Path
) -> None:
    with (
        Server(tmp_path / "log", shutdown_timeout=1) as server,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        body = json.dumps({"inputs": LONG}).encode()
        asked = [pool.submit(server.client.post, "/tokens", content=body) for _ in range(8)]
        time.sleep(1)
        assert server.stop() == 0
        found = [each.result().status_code for each in asked]
    assert 503 in found and set(found) <= {200, 429, 503}
