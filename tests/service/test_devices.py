"""A model on several devices: real processes, with two engines on the processors."""

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from embedwell.launch.supervised import ENGINE
from tests.conftest import COMPILED, Folder
from tests.service.server import Server

BODY = {"inputs": ["red", "green and blue"]}
ON_NODES = """
import sys
from pathlib import Path
from embedwell.cli.options import read
from embedwell.launch.bootstrap import run
settings = read({"port": 0})
sys.exit(run(settings, [(settings, Path(settings.model))], Path(sys.argv[1])))
"""
"""Serves on the NUMA nodes that a folder describes, in place of /sys."""


@contextmanager
def serving(folder: Path, tmp_path: Path, **settings: Any) -> Iterator[Server]:
    """Serve a model on two engines, once both are ready."""
    with Server(tmp_path / "log", model=folder, devices="cpu,cpu", **settings) as server:
        wait_ready(server)
        yield server


def info(server: Server) -> dict[str, Any]:
    content: dict[str, Any] = server.client.get("/info").json()
    return content


def ready(server: Server) -> list[bool]:
    return [engine["ready"] for engine in info(server)["engines"]]


def wait_ready(server: Server, up: bool = True) -> None:
    """Wait until both engines are ready, or neither is."""
    server.wait_until(lambda: ready(server) == [up, up])


def wait_replaced(server: Server, count: int) -> None:
    """Wait until engines have been restarted so often, and both are ready."""
    server.wait_until(lambda: restarts(server) == count)
    wait_ready(server)


def restarts(server: Server) -> int:
    count: int = info(server)["engine_restarts"]
    return count


def engines(server: Server) -> list[psutil.Process]:
    return server.children(ENGINE)


def kill_an_engine(server: Server) -> None:
    """Kill an engine, and wait until its process is gone."""
    engine = engines(server)[0]
    engine.kill()
    assert not psutil.wait_procs([engine], timeout=60)[1]


def embed(server: Server) -> bytes:
    response = server.post("/embed", BODY)
    assert response.status_code == 200, response.text
    return response.content


def metric(server: Server, name: str) -> str:
    lines = server.client.get("/metrics").text.splitlines()
    return next(line for line in lines if line.startswith(name)).rpartition(" ")[2]


def test_each_engine_computes_the_same_bytes(tiny_bert: Folder, tmp_path: Path) -> None:
    with (
        serving(tiny_bert(**COMPILED), tmp_path, workers=2, admin_key="a") as server,
        ThreadPoolExecutor(4) as pool,
    ):
        expected = embed(server)
        for engine in engines(server):
            engine.suspend()  # what responds now is the other one
            requests = [pool.submit(embed, server) for _ in range(4)]
            done, _ = wait(requests, timeout=60, return_when=FIRST_COMPLETED)
            engine.resume()
            assert done and {request.result() for request in requests} == {expected}
        assert [each["device"] for each in info(server)["engines"]] == ["cpu#1", "cpu#2"]
        assert restarts(server) == 0
        assert info(server)["engine"]["threads"] == max(1, len(os.sched_getaffinity(0)) // 2)
        assert server.client.get("/health").json()["engines_down"] == []
        assert metric(server, 'embedwell_engine_ready{device="cpu#2"}') == "1.0"
        for action, up in (("unload", False), ("load", True)):
            path = f"/models/{info(server)['model']}/{action}"
            assert server.post(path, {}, authorization="Bearer a").status_code == 200
            wait_ready(server, up)
        ends = engines(server)
        assert server.stop() == 0
        assert not psutil.wait_procs(ends, timeout=120)[1]


def test_no_request_is_lost_when_an_engine_is_killed(tiny_bert: Folder, tmp_path: Path) -> None:
    with serving(tiny_bert(**COMPILED), tmp_path) as server, ThreadPoolExecutor(4) as pool:
        expected, done = embed(server), threading.Event()

        def send() -> set[bytes]:
            responses = set[bytes]()
            while not done.is_set():
                responses.add(embed(server))
            return responses

        senders = [pool.submit(send) for _ in range(4)]
        try:
            for count in (1, 2, 3):
                kill_an_engine(server)
                wait_replaced(server, count)
        finally:
            done.set()
        assert [sender.result() for sender in senders] == [{expected}] * 4


class ServerOnNodes(Server):
    """A server on a machine whose NUMA nodes have a processor each."""

    def __init__(self, folder: Path, cpus: list[int], **settings: Any) -> None:
        super().__init__(folder / "log", **settings)
        self._folder = folder
        for node, cpu in enumerate(cpus):
            (folder / f"node/node{node}").mkdir(parents=True)
            (folder / f"node/node{node}/cpulist").write_text(f"{cpu}\n")

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-c", ON_NODES, str(self._folder)]


def test_each_engine_is_bound_to_the_processors_of_its_node(
    tiny_bert: Folder, tmp_path: Path
) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    cpus = [allowed[0], allowed[-1]]
    with ServerOnNodes(
        tmp_path, cpus, model=tiny_bert(**COMPILED), devices="cpu:0,cpu:1"
    ) as server:
        wait_ready(server)
        embed(server)
        assert [bound(engine) for engine in engines(server)] == [{cpus[0]}, {cpus[1]}]
        assert [each["device"] for each in info(server)["engines"]] == ["cpu:0", "cpu:1"]
        assert info(server)["engine"]["threads"] == 1
        kill_an_engine(server)
        wait_replaced(server, 1)
        assert set().union(*map(bound, engines(server))) == {*cpus}


def bound(engine: psutil.Process) -> set[int]:
    """The processors that the threads of an engine may use."""
    threads = [os.sched_getaffinity(thread.id) for thread in engine.threads()]
    return set().union(*threads)


def test_the_server_serves_until_no_engine_can_be_started(
    tiny_bert: Folder, tmp_path: Path
) -> None:
    folder = tiny_bert(**COMPILED)
    with serving(folder, tmp_path) as server:
        expected = embed(server)
        (folder / "config.json").rename(folder / "renamed.json")
        kill_an_engine(server)
        server.wait_until(lambda: "continues without this device" in server.log)
        health = server.client.get("/health")
        assert health.status_code == 200
        [down] = health.json()["engines_down"]
        assert metric(server, f'embedwell_engine_ready{{device="{down}"}}') == "0.0"
        assert f"on {down}" in server.log
        assert {embed(server) for _ in range(9)} == {expected}
        kill_an_engine(server)
        assert server.process.wait(60) == 1
        assert "the server ends" in server.log


def test_the_first_engine_decides_the_precision(tiny_bert: Folder, tmp_path: Path) -> None:
    with serving(tiny_bert(**COMPILED), tmp_path, dtype="auto") as server:
        trials = [line for line in server.log.splitlines() if "cosine to float32" in line]
        assert len(trials) == len({line.partition(" in ")[2].split()[0] for line in trials})
        assert len(trials) == len(info(server)["engine"]["trials"]) - 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="the missing devices exist here")
def test_devices_that_the_machine_lacks_end_the_server(tiny_bert: Folder, tmp_path: Path) -> None:
    server = Server(tmp_path / "log", model=tiny_bert(**COMPILED), devices="cuda:0,cuda:1")
    server.launch()
    assert server.process.wait(120) == 1
    assert server.log.count("the server continues without this device") == 1
    assert "the server ends" in server.log
