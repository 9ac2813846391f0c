"""Server processes that are killed or hang, under load."""

import os
import signal
import time
from pathlib import Path

import httpx
import psutil
import pytest

from embedwell.launch.supervised import HTTP_PROCESS
from tests.attacks.harness import attack
from tests.service.server import Server

pytestmark = pytest.mark.attack

WORKER = HTTP_PROCESS


def pids(server: Server, module: str) -> set[int]:
    return {child.pid for child in server.children(module)}


def test_killing_an_http_process_affects_no_other_process(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", workers=2) as server:
        server.wait_until(lambda: len(pids(server, WORKER)) == 2, 300)
        engine, first = server.engine, min(pids(server, WORKER))
        with attack("the first HTTP process is killed", server) as report:
            time.sleep(1)
            os.kill(first, signal.SIGKILL)
            server.wait_until(lambda: len(pids(server, WORKER) - {first}) == 2, 300)
            server.client.close()
            time.sleep(2)
        # Only its pending requests fail: at most one of each client.
        assert len(report.failures) <= 2 and len(report.seconds) > 2, report.failures[:3]
        assert server.engine == engine


@pytest.mark.parametrize("workers", [1, 3])
def test_a_hung_http_process_is_replaced(
    minilm_folder: object, tmp_path: Path, workers: int
) -> None:
    with Server(tmp_path / "log", workers=workers) as server:
        server.wait_until(lambda: len(pids(server, WORKER)) == workers, 300)
        hung = min(pids(server, WORKER))
        with attack(f"one of {workers} HTTP processes hangs", server) as report:
            time.sleep(1)
            os.kill(hung, signal.SIGSTOP)
            server.wait_until(lambda: "shown no progress for 30 s and is killed" in server.log, 300)
            server.wait_until(lambda: len(pids(server, WORKER) - {hung}) == workers, 300)
            time.sleep(2)
        # Only its pending requests fail.
        assert len(report.failures) <= 2 and report.seconds, report.failures[:3]
        response = httpx.post(f"{server.url}/embed", json={"inputs": "a"}, timeout=60)
        assert response.status_code == 200


def test_a_hung_engine_is_replaced_and_requests_fail_early(victim: Server) -> None:
    with attack("the engine hangs", victim) as report:
        time.sleep(1)
        hung = victim.engine
        os.kill(hung, signal.SIGSTOP)
        victim.wait_until(lambda: "the engine hangs and is killed" in victim.log, 300)
        victim.wait_until(lambda: "engine replaced" in victim.log, 300)
        time.sleep(2)
    assert not psutil.pid_exists(hung)
    # Refused in time with a status to retry, and answered once there is an engine.
    assert all(failure.startswith("503") for failure in report.failures), report.failures[:3]
    assert victim.post("/embed", {"inputs": "a"}).status_code == 200
