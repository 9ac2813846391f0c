"""Two servers behind the gateway: a client that tries to mark both as down, and a restart."""

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.attacks.harness import MB, attack, connect
from tests.gateways import Gateway, free_port
from tests.service.server import Server

pytestmark = pytest.mark.attack

REFUSED = {
    "an unknown method": b"PRONTO /embed HTTP/1.1\r\nhost: localhost\r\n",
    "a URL that is not ASCII": b"POST /\xff HTTP/1.1\r\nhost: localhost\r\n",
    "190 KB of headers": b"POST /embed HTTP/1.1\r\nhost: localhost\r\n"
    + b"x-a: %s\r\n" % (b"a" * 63_000) * 3,
}


@pytest.fixture
def two_servers(minilm_folder: object, tmp_path: Path) -> Iterator[list[Server]]:
    """Two servers that compute in one thread each."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(Server(tmp_path / f"log-{name}", free_port(), threads=1))
            for name in ("first", "second")
        ]


def hosts(servers: list[Server]) -> list[str]:
    return [server.url.removeprefix("http://") for server in servers]


def send_repeatedly(url: str, request: bytes, seconds: float) -> None:
    """Send a request again and again, each time on a new connection."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with connect(url) as client, contextlib.suppress(ConnectionError):
            client.sendall(request)
            client.recv(1000)


@pytest.mark.parametrize("name", REFUSED)
def test_a_client_refused_while_sending_does_not_mark_servers_as_down(
    two_servers: list[Server], tmp_path: Path, name: str
) -> None:
    head = REFUSED[name] + b"content-length: %d\r\n\r\n" % (8 * MB)
    with (
        Gateway(tmp_path, *hosts(two_servers)) as gateway,
        attack(f"{name} with 8 MB, through the gateway", *two_servers, url=gateway.url) as report,
        ThreadPoolExecutor() as threads,
    ):
        for _ in range(4):
            threads.submit(send_repeatedly, gateway.url, head + b" " * (8 * MB), 5)
    report.check(growth=100)


def test_no_request_fails_during_a_rolling_restart(
    two_servers: list[Server], tmp_path: Path
) -> None:
    with (
        contextlib.ExitStack() as stack,
        Gateway(tmp_path, *hosts(two_servers)) as gateway,
        attack("a rolling restart", url=gateway.url) as report,
    ):
        for old in two_servers:
            port = int(old.url.rpartition(":")[2])
            assert old.stop() == 0
            new = Server(tmp_path / f"log-{port}", port, threads=1)
            stack.enter_context(new).wait_ready(60)
            time.sleep(1)
    report.check(growth=0)
