"""`serve run` of the application's deployment on a real cluster."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
import yaml

from embedwell_models.embedder import Embedder
from tests.gateways import free_port
from tests.service.server import MAX_ISA, wait_ready

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[4]
ARGUMENTS = {
    "cpus": 1,
    "max_replicas": 2,
    "wait": 0.05,
    "dtype": "float32",
    "isa": MAX_ISA,
    "max_wait": 60,
}


class Deployment:
    """A running deployment."""

    def __init__(self, process: psutil.Process, client: httpx.Client) -> None:
        self.process, self.client = process, client

    def engines(self) -> list[psutil.Process]:
        """The process that each replica has started and that computes."""
        replicas = [
            process
            for process in self.process.children(recursive=True)
            if "ServeReplica" in " ".join(process.cmdline())
        ]
        return [child for replica in replicas for child in replica.children(recursive=True)]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The deployment of deploy/ray/serve.yaml, which adds a replica at little load."""
    folder, port = tmp_path_factory.mktemp("serve"), free_port()
    config = yaml.safe_load((ROOT / "deploy/ray/serve.yaml").read_text(encoding="utf-8"))
    config["http_options"] |= {"host": "127.0.0.1", "port": port}
    config["applications"][0]["args"] |= ARGUMENTS
    (folder / "serve.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    serve = str(Path(sys.executable).with_name("serve"))
    # A shell lets those that it starts with & ignore interrupts.
    command = ["env", "--default-signal=INT", serve, "run", str(folder / "serve.yaml")]
    environment = {
        **os.environ,
        "RAY_ADDRESS": "local",  # not the cluster of another test
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_OVERRIDE_RESOURCES": '{"CPU": 4}',
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
        wait_ready(client, process, folder / "log")
        deployment = Deployment(psutil.Process(process.pid), client)
        yield deployment
        started = deployment.process.children(recursive=True)
        process.send_signal(signal.SIGINT)  # as Ctrl-C does
        process.wait(120)
    assert not psutil.wait_procs(started, 120)[1]


@contextmanager
def load(client: httpx.Client) -> Iterator[None]:
    """Send requests of long texts by several clients until the end of the block."""
    stopped = threading.Event()

    def send() -> None:
        while not stopped.is_set():
            client.post("/embed", json={"inputs": ["a b c d " * 60] * 16})

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def test_a_deployment_serves_the_vectors_and_errors_of_the_application(
    deployment: Deployment, embedder: Embedder
) -> None:
    texts = ["Hello, world", "a b " * 300]
    response = deployment.client.post("/embed", json={"inputs": texts})
    np.testing.assert_array_equal(np.float32(response.json()), embedder.embed(texts))
    assert response.headers["x-truncated"] == "1"
    assert deployment.client.get("/nothing").json()["code"] == "not_found"
    assert deployment.client.get("/info").json()["engine"]["threads"] == 1


def test_an_engine_that_dies_is_replaced_without_a_lost_request(deployment: Deployment) -> None:
    engine = max(deployment.engines(), key=lambda process: process.memory_info().rss)
    engine.kill()
    assert deployment.client.post("/embed", json={"inputs": "a"}).status_code == 200
    assert engine.pid not in {process.pid for process in deployment.engines()}


def test_a_replica_is_added_when_work_is_queued(deployment: Deployment) -> None:
    deadline, before = time.monotonic() + 300, len(deployment.engines())
    with load(deployment.client):
        while len(deployment.engines()) < 2 * before:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert deployment.client.post("/embed", json={"inputs": "a"}).status_code == 200
