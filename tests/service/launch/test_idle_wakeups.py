"""A server without requests sleeps: none of its threads wakes up."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import Folder
from tests.service.server import Server

WINDOW, MOST = 3.0, 2  # seconds, and switches of all threads in them; a timer of 1 s makes more
LIMIT = 120.0  # seconds until a server sleeps, on a busy machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")


@pytest.fixture
def server(tiny_bert: Folder, tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log", model=tiny_bert(), workers=1, idle_exit="1h") as server:
        yield server


def voluntary_switches(server: Server) -> dict[str, int]:
    """How often each process gave up its processor to wait, over all of its threads."""
    first = psutil.Process(server.process.pid)
    switches = {}
    for process in (first, *first.children(recursive=True)):
        lines = [
            line
            for status in Path(f"/proc/{process.pid}/task").glob("*/status")
            for line in status.read_text().splitlines()
        ]
        counts = [int(line.split()[1]) for line in lines if line.startswith("voluntary_")]
        switches[f"{process.name()} {process.pid}"] = sum(counts)
    return switches


def switches_in_a_window(server: Server) -> dict[str, int] | None:
    """Count the switches of each process in a window; None if a process or a thread ended in it."""
    try:
        before = voluntary_switches(server)
        time.sleep(WINDOW)
        after = voluntary_switches(server)
        return {process: after[process] - before[process] for process in before}
    except (OSError, psutil.Error, KeyError):
        return None


def test_no_thread_of_an_idle_server_wakes_up(server: Server) -> None:
    server.wait_ready()
    assert server.post("/embed", {"inputs": "a"}).status_code == 200
    server.client.close()
    deadline = time.monotonic() + LIMIT
    while (woken := switches_in_a_window(server)) is None or sum(woken.values()) > MOST:
        assert time.monotonic() < deadline, woken
