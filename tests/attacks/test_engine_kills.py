"""Engines that are killed, and texts of which they die: nobody else's request is lost."""

import os
import signal
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.attacks.load import Load
from tests.nginx import Gateway
from tests.service.responses import error
from tests.service.server import Server

pytestmark = pytest.mark.attack

FATAL = 12345
POISON = {"inputs": ["an innocent text", [101, FATAL, 102]]}


@pytest.fixture
def mortal(minilm_folder: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets servers of this test have engines that die of a token: see fatal/sitecustomize.py."""
    path = os.pathsep.join([str(Path(__file__).parent / "fatal"), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("FATAL_TOKEN", str(FATAL))


def kill(server: Server) -> None:
    """End the engine, and wait until the server has seen it."""
    before = restarts(server)
    os.kill(server.engine, signal.SIGKILL)
    server.wait_until(lambda: restarts(server) != before)


def restarts(server: Server) -> int:
    return int(server.client.get("/info").json()["engine_restarts"])


def metric(server: Server, name: str) -> float:
    lines = server.client.get("/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_engine_loses_no_request(
    minilm_folder: object, tmp_path: Path, workers: int
) -> None:
    with Server(tmp_path / "log", workers=workers) as server:
        with Load(server.url, 32) as load:
            for _ in range(2):
                time.sleep(1)
                kill(server)
                server.wait_ready(120)
            time.sleep(1)
        sys.stdout.write(f"\n2 kills, {workers} HTTP processes: {load.report()}\n")
        assert load.statuses[200] > 32 and not load.lost
        assert metric(server, "embedding_replayed_requests_total") >= 32
        assert metric(server, "embedding_quarantined_inputs_total") == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_text_that_kills_the_engine_is_named_and_kills_no_other(
    mortal: None, tmp_path: Path, workers: int
) -> None:
    with Server(tmp_path / "log", workers=workers) as server:
        with Load(server.url, 32) as load:
            time.sleep(1)
            found = error(server.post("/embed", POISON), 500)
            assert (found["code"], found["index"]) == ("engine_crash", 1)
            time.sleep(1)
        sys.stdout.write(f"\na fatal text, {workers} HTTP processes: {load.report()}\n")
        assert load.statuses[200] > 32 and not load.lost
        assert restarts(server) == 3
        assert metric(server, "embedding_quarantined_inputs_total") == 1
        answer = server.post("/embed", POISON)
        assert error(answer, 500)["code"] == "engine_crash"
        assert answer.headers["x-should-retry"] == "false"
        assert restarts(server) == 3, "it was tried again"
        partial = server.post("/embed", {**POISON, "partial": True})
        codes = [result.get("error", {}).get("code") for result in partial.json()["results"]]
        assert codes == [None, "engine_crash"]


def test_a_text_that_kills_the_engine_is_given_to_no_other_server(
    mortal: None, tmp_path: Path
) -> None:
    with Server(tmp_path / "one") as one, Server(tmp_path / "other") as other:
        hosts = [each.url.removeprefix("http://") for each in (one, other)]
        with Gateway(tmp_path, *hosts) as gateway:
            with Load(gateway.url, 32) as load:
                time.sleep(1)
                answer = httpx.post(f"{gateway.url}/embed", json=POISON, timeout=70)
                time.sleep(1)
            sys.stdout.write(f"\na fatal text behind a gateway: {load.report()}\n")
            assert error(answer, 500)["code"] == "engine_crash"
            assert load.statuses[200] > 32 and not load.lost
            assert sorted([restarts(one), restarts(other)]) == [0, 3]
