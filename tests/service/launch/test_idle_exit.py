"""A server that ends by itself when it is not used."""

import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import COMPILED, Folder
from tests.service.launch.health_checks import HealthChecks
from tests.service.server import UnixServer

LIMIT = 2  # seconds


@pytest.fixture
def server(tiny_bert: Folder, tmp_path: Path) -> Iterator[UnixServer]:
    """A server that has been launched, and listens."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        settings = {"model": tiny_bert(**COMPILED), "workers": 2, "idle_exit": f"{LIMIT}s"}
        server = UnixServer(tmp_path / "log", path, **settings)
        server.launch()
        server.wait_until(path.exists, 300)
        yield server
        assert not path.exists()


def test_a_server_ends_after_its_last_request_and_serves_each_client_that_has_connected(
    server: UnixServer,
) -> None:
    body = b'{"inputs": "a"}'
    with closing(socket.socket(socket.AF_UNIX)) as client:
        client.connect(str(server.socket))
        client.sendall(b"POST /embed HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body))
        server.wait_until(lambda: server.listens.search(server.log), 300)
        time.sleep(1.5 * LIMIT)
        assert server.process.poll() is None, "a request is running"
        client.sendall(body)
        assert client.recv(12) == b"HTTP/1.1 200"
    with HealthChecks(server.socket) as checks:  # they are not counted
        assert server.process.wait(120) == 0
    assert checks.served and not checks.failed
    last = server.log.splitlines()[-1]
    assert last.endswith(f"the server ends: no request came for {LIMIT} s (EMBEDWELL_IDLE_EXIT)")
