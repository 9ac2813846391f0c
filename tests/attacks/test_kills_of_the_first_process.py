"""The first process of a server is killed, so that no engine will follow the last one."""

import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.attacks.load import Load
from tests.service.server import Server

pytestmark = pytest.mark.attack


@pytest.mark.parametrize("workers", [1, 2])
def test_pending_requests_are_told_at_once_that_the_server_ends(
    minilm_folder: object, tmp_path: Path, workers: int
) -> None:
    with Server(tmp_path / "log", workers=workers, shutdown_timeout=600, drain_delay=600) as server:
        children = psutil.Process(server.process.pid).children(recursive=True)
        with Load(server.url, 32, {"inputs": ["some words to embed"] * 64}) as load:
            server.wait_until(lambda: load.statuses[200] > 32)
            server.process.send_signal(signal.SIGKILL)
            _, alive = psutil.wait_procs(children, 60)
        sys.stdout.write(f"\nthe first process is killed: {load.report()}\n")
        assert not alive, "a process of the server continues without the first one"
        # Connections are refused once the HTTP processes have ended.
        assert set(load.statuses) <= {0, 200, 503} and load.statuses[200] > 32
        assert "the first process of the server has ended" in server.log
