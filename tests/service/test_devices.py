"""A model on several devices: real processes, with two engines on the processors."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import torch

from embedwell.launch.supervised import FORK_SERVER
from tests.conftest import Folder
from tests.service.server import Server

BODY = {"inputs": ["red", "green and blue"]}
NAMES = ["cpu#1", "cpu#2"]


@contextmanager
def serving(folder: Path, tmp_path: Path, **settings: object) -> Iterator[Server]:
    """Serve a model on two engines, once both are ready."""
    with Server(tmp_path / "log", model=folder, devices="cpu,cpu", **settings) as server:
        server.wait_until(lambda: states(server) == ["ready", "ready"])
        yield server


def states(server: Server) -> list[str]:
    engines = server.client.get("/info").json()["engines"]
    assert [engine["device"] for engine in engines] == NAMES
    return [engine["state"] for engine in engines]


def restarts(server: Server) -> int:
    count: int = server.client.get("/info").json()["engine_restarts"]
    return count


def engines(server: Server) -> list[int]:
    """The process ids of the engines."""
    [fork_server] = server.children(FORK_SERVER)
    return [engine.pid for engine in fork_server.children()]


def embed(server: Server) -> bytes:
    response = server.post("/embed", BODY)
    assert response.status_code == 200, response.text
    return response.content


def metric(server: Server, name: str) -> str:
    lines = server.client.get("/metrics").text.splitlines()
    return next(line for line in lines if line.startswith(name)).rpartition(" ")[2]


def test_each_engine_computes_the_same_bytes(tiny_bert: Folder, tmp_path: Path) -> None:
    with (
        serving(tiny_bert(), tmp_path, workers=2, admin_key="a") as server,
        ThreadPoolExecutor(4) as pool,
    ):
        expected = embed(server)
        for engine in engines(server):
            os.kill(engine, signal.SIGSTOP)  # what responds now is the other one
            requests = [pool.submit(embed, server) for _ in range(4)]
            done, _ = wait(requests, timeout=60, return_when=FIRST_COMPLETED)
            os.kill(engine, signal.SIGCONT)
            assert done and {request.result() for request in requests} == {expected}
        assert restarts(server) == 0
        threads = server.client.get("/info").json()["engine"]["threads"]
        assert threads == max(1, len(os.sched_getaffinity(0)) // 2)
        assert server.client.get("/health").json()["engines_down"] == []
        assert metric(server, 'embedwell_engine_ready{device="cpu#2"}') == "1.0"
        for action in ("unload", "load"):
            path = f"/models/{server.client.get('/info').json()['model']}/{action}"
            assert server.post(path, {}, authorization="Bearer a").status_code == 200
            state = "unloaded" if action == "unload" else "ready"
            server.wait_until(lambda state=state: states(server) == [state, state])  # type: ignore[misc]
        ends = [psutil.Process(pid) for pid in engines(server)]
        assert server.stop() == 0
        assert not psutil.wait_procs(ends, timeout=10)[1]


def test_no_request_is_lost_when_an_engine_is_killed(tiny_bert: Folder, tmp_path: Path) -> None:
    with serving(tiny_bert(), tmp_path) as server:
        expected, responses, done = embed(server), list[bytes](), threading.Event()

        def send() -> None:
            while not done.is_set():
                responses.append(server.post("/embed", BODY).content)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for count in (1, 2, 3):
                os.kill(engines(server)[0], signal.SIGKILL)
                server.wait_until(lambda count=count: restarts(server) == count)  # type: ignore[misc]
                server.wait_until(lambda: states(server) == ["ready", "ready"])
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert set(responses) == {expected}


def test_the_server_serves_until_no_engine_can_be_started(
    tiny_bert: Folder, tmp_path: Path
) -> None:
    folder = tiny_bert()
    with serving(folder, tmp_path) as server:
        expected = embed(server)
        (folder / "config.json").rename(folder / "renamed.json")
        os.kill(engines(server)[0], signal.SIGKILL)
        server.wait_until(lambda: "failed" in states(server))
        ready = server.client.get("/health")
        assert ready.status_code == 200
        [down] = ready.json()["engines_down"]
        assert metric(server, f'embedwell_engine_ready{{device="{down}"}}') == "0.0"
        assert f"on {down}" in server.log and "continues without this device" in server.log
        assert {embed(server) for _ in range(9)} == {expected}
        os.kill(engines(server)[0], signal.SIGKILL)
        assert server.process.wait(60) == 1
        assert "the server ends" in server.log


def test_the_first_engine_decides_the_precision(tiny_bert: Folder, tmp_path: Path) -> None:
    with serving(tiny_bert(), tmp_path, dtype="auto") as server:
        trials = [line for line in server.log.splitlines() if "cosine to float32" in line]
        assert len(trials) == len({line.partition(" in ")[2].split()[0] for line in trials})
        assert len(trials) == len(server.client.get("/info").json()["engine"]["trials"]) - 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_devices_that_the_machine_lacks_end_the_server(tiny_bert: Folder, tmp_path: Path) -> None:
    server = Server(tmp_path / "log", model=tiny_bert(), devices="cuda:0,cuda:1")
    server.launch()
    assert server.process.wait(120) == 1
    assert server.log.count("the server continues without this device") == 1
    assert "the server ends" in server.log
