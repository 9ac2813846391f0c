"""Engines that are killed, and inputs that crash them: no other request fails."""

import contextlib
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from embedwell.launch.supervised import HTTP_PROCESS
from tests.attacks.harness import unread_bytes
from tests.attacks.load import Load
from tests.gateways import Gateway
from tests.models.sparse_encoder import write_bge_m3
from tests.service.responses import error
from tests.service.server import Server

pytestmark = pytest.mark.attack

FATAL = 12345
FATAL_INPUTS = {"inputs": ["a harmless text", [101, FATAL, 102]]}


@pytest.fixture
def fatal_token(minilm_folder: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the engines of this test crash at one token id: see fatal/sitecustomize.py."""
    path = os.pathsep.join([str(Path(__file__).parent / "fatal"), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("FATAL_TOKEN", str(FATAL))


def kill_engine(server: Server) -> None:
    """Kill the engine; wait until the server notices it."""
    before = restarts(server)
    os.kill(server.engine, signal.SIGKILL)
    server.wait_until(lambda: restarts(server) != before)


def restarts(server: Server) -> int:
    return int(server.client.get("/info").json()["engine_restarts"])


def metric(server: Server, name: str) -> float:
    lines = server.client.get("/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


@pytest.mark.parametrize("workers", [1, 2])
def test_no_request_fails_when_the_engine_is_killed(
    minilm_folder: object, tmp_path: Path, workers: int
) -> None:
    with Server(tmp_path / "log", workers=workers) as server:
        with Load(server.url, 32) as load:
            for _ in range(2):
                time.sleep(1)
                kill_engine(server)
                server.wait_ready(120)
            time.sleep(1)
        sys.stdout.write(f"\n2 kills, {workers} HTTP processes: {load.report()}\n")
        assert load.statuses[200] > 32 and not load.failures
        assert metric(server, "embedwell_replayed_requests_total") >= 32
        assert metric(server, "embedwell_quarantined_inputs_total") == 0


def test_no_request_fails_in_a_process_that_starts_while_the_engine_restarts(
    minilm_folder: object, tmp_path: Path
) -> None:
    server = Server(tmp_path / "log", workers=2)
    with ThreadPoolExecutor(1) as pool:
        pausing = pool.submit(pause_second_process, server)
        with server:
            second, first = pausing.result(), psutil.Process(server.process.pid)
            engine = server.engine
            first.suspend()  # it starts no engine
            os.kill(engine, signal.SIGKILL)
            with Load(server.url, 32) as load:
                server.wait_until(lambda: unread_bytes(server.url))
                second.resume()
                server.wait_until(lambda: not unread_bytes(server.url))
                first.resume()
                server.wait_until(lambda: load.statuses[200] > 64, 120)
        sys.stdout.write(f"\na process that starts late: {load.report()}\n")
        assert not load.failures


def pause_second_process(server: Server) -> psutil.Process:
    """Suspend the second HTTP process while it starts."""
    while True:
        time.sleep(0.005)
        with contextlib.suppress(AttributeError, psutil.Error):  # the server may not have started
            processes = server.children(HTTP_PROCESS)
            if len(processes) > 1:
                last = max(processes, key=lambda process: process.pid)
                last.suspend()
                return last


def test_several_outputs_are_the_same_while_the_engine_is_killed(tmp_path: Path) -> None:
    outputs = {"dense": "embeddings", "sparse": "sparse", "multi": "multi"}
    body = {"inputs": ["the license of this work", "x", "any"] * 20, "outputs": [*outputs]}
    model = write_bge_m3(tmp_path / "model")
    stop = threading.Event()
    with Server(tmp_path / "log", model=model, dtype="float32") as server:

        def ask() -> list[object]:
            response = httpx.post(f"{server.url}/embed", json=body, timeout=120)
            assert response.status_code == 200, response.text
            return [response.json()[name] for name in outputs.values()]

        def count_equal_responses(expected: list[object]) -> int:
            count = 0
            while not stop.is_set():
                assert ask() == expected
                count += 1
            return count

        with ThreadPoolExecutor(8) as pool:
            counts = [pool.submit(count_equal_responses, ask()) for _ in range(8)]
            kills = 0
            try:
                while kills < 2 or not metric(server, "embedwell_replayed_requests_total"):
                    assert kills < 20, "no kill met a request"
                    time.sleep(1)
                    kill_engine(server)
                    server.wait_ready(120)
                    kills += 1
            finally:
                stop.set()
            total = sum(count.result() for count in counts)
        replayed = metric(server, "embedwell_replayed_requests_total")
        sys.stdout.write(f"\n{kills} kills, {total} equal responses, {replayed:.0f} replayed\n")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_input_that_crashes_the_engine_fails_alone(
    fatal_token: None, tmp_path: Path, workers: int
) -> None:
    with Server(tmp_path / "log", workers=workers) as server:
        with Load(server.url, 32) as load:
            time.sleep(1)
            failure = error(server.post("/embed", FATAL_INPUTS), 500)
            assert (failure["code"], failure["index"]) == ("engine_crash", 1)
            time.sleep(1)
        sys.stdout.write(f"\na fatal text, {workers} HTTP processes: {load.report()}\n")
        assert load.statuses[200] > 32 and not load.failures
        assert restarts(server) == 3
        assert metric(server, "embedwell_quarantined_inputs_total") == 1
        response = server.post("/embed", FATAL_INPUTS)
        assert error(response, 500)["code"] == "engine_crash"
        assert response.headers["x-should-retry"] == "false"
        assert restarts(server) == 3, "the text was computed again"
        partial = server.post("/embed", {**FATAL_INPUTS, "partial": True})
        codes = [result.get("error", {}).get("code") for result in partial.json()["results"]]
        assert codes == [None, "engine_crash"]


@pytest.mark.parametrize("workers", [1, 2])
def test_inputs_that_crash_the_engine_at_once_fail_alone(
    fatal_token: None, tmp_path: Path, workers: int
) -> None:
    bodies = [{"inputs": [f"a harmless text {i}", [101, FATAL, 1000 + i, 102]]} for i in range(8)]
    with (
        Server(tmp_path / "log", workers=workers, request_timeout=600) as server,
        ThreadPoolExecutor(8) as pool,
    ):
        with Load(server.url, 32) as load:
            time.sleep(1)
            for response in pool.map(lambda body: server.post("/embed", body), bodies):
                failure = error(response, 500)
                assert failure["message"].startswith("the engine crashed while it computed")
                assert (failure["code"], failure["index"]) == ("engine_crash", 1)
            time.sleep(1)
        died = restarts(server)
        sys.stdout.write(
            f"\n8 fatal texts at once, {workers} HTTP processes, {died} deaths: {load.report()}\n"
        )
        assert load.statuses[200] > 32 and not load.failures, (load.report(), server.log)
        assert metric(server, "embedwell_quarantined_inputs_total") == 8


def test_an_input_that_crashes_the_engine_is_not_sent_to_another_server(
    fatal_token: None, tmp_path: Path
) -> None:
    with Server(tmp_path / "one") as first, Server(tmp_path / "other") as second:
        hosts = [server.url.removeprefix("http://") for server in (first, second)]
        with Gateway(tmp_path, *hosts) as gateway:
            with Load(gateway.url, 32) as load:
                time.sleep(1)
                response = httpx.post(f"{gateway.url}/embed", json=FATAL_INPUTS, timeout=70)
                time.sleep(1)
            sys.stdout.write(f"\na fatal text behind a gateway: {load.report()}\n")
            assert error(response, 500)["code"] == "engine_crash"
            assert load.statuses[200] > 32 and not load.failures
            assert sorted([restarts(first), restarts(second)]) == [0, 3]
