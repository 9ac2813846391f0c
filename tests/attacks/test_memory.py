"""Many large responses and bodies at a time, also with slow clients."""

import contextlib
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.attacks.harness import MB, RETURNED, ROWS, attack, connect, flood, post, unread_bytes
from tests.service.server import Server

pytestmark = pytest.mark.attack

GET_LARGE = (
    b"GET /positions?scheme=sinusoidal&count=10400&dim=384 HTTP/1.1\r\nhost: localhost\r\n\r\n"
)


LARGE_RESPONSES = {
    "/positions of 44 MB": GET_LARGE,
    "/similarity of 4 million scores": post("/similarity", {"a": ROWS, "b": ROWS}),
    "/tokenize of 290,000 tokens": post("/tokenize", {"inputs": ["a b " * 145] * 1000}),
}


@pytest.mark.parametrize("name", LARGE_RESPONSES)
def test_many_large_responses_are_computed_a_few_at_a_time(victim: Server, name: str) -> None:
    with attack(f"50 x {name}", victim) as report:
        received = flood(victim.url, 50, LARGE_RESPONSES[name], seconds=15, least=10 * MB)
    assert max(received) >= 10 * MB, "no large response was sent"
    report.check(growth=700)
    assert report.after - report.before < RETURNED, "memory was not returned"


def test_slow_readers_take_little_memory(victim: Server) -> None:
    with attack("50 slow readers of 44 MB", victim) as report, ExitStack() as stack:
        clients = [stack.enter_context(connect(victim.url)) for _ in range(50)]
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            client.sendall(GET_LARGE)
            client.settimeout(0.01)
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            for client in clients:
                try:
                    client.recv(1 << 14)
                except TimeoutError:
                    continue
    report.check(growth=700)


def test_clients_that_stop_reading_give_way_to_others(
    minilm_folder: object, tmp_path: Path
) -> None:
    count, rows, texts = 7, 2600, {"inputs": ["a short text"] * 64}
    request = GET_LARGE.replace(b"10400", b"%d" % rows)
    # The memory of seven responses, each larger than the buffers of the system.
    settings = {"max_buffered_bytes": count * rows * 384 * 32 + 100_000, "receive_timeout": 1000}
    with (
        Server(tmp_path / "log", **settings) as server,
        attack("7 clients that read a byte at a time", server) as report,
        ExitStack() as stack,
    ):
        server.wait_ready()
        clients = [stack.enter_context(connect(server.url)) for _ in range(count)]
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
            client.sendall(request)
            assert client.recv(12) == b"HTTP/1.1 200"

        def others_are_served() -> bool:
            for client in clients:
                with contextlib.suppress(ConnectionError):
                    client.recv(1)
            return server.post("/embed", texts).status_code == 200

        server.wait_until(others_are_served)
        assert server.log.count("because the client does not read the response") == 1
    report.check(growth=700)


def test_clients_that_send_slowly_give_way_to_others(minilm_folder: object, tmp_path: Path) -> None:
    count, texts = 7, {"inputs": ["a short text"] * 64}
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % MB
    # The memory of seven bodies.
    settings = {"max_buffered_bytes": count * 3 * MB, "receive_timeout": 1000}
    with (
        Server(tmp_path / "log", **settings) as server,
        attack("7 clients that send a byte at a time", server) as report,
        ExitStack() as stack,
    ):
        server.wait_ready()
        clients = [stack.enter_context(connect(server.url)) for _ in range(count)]
        for client in clients:
            client.sendall(head + b" " * (MB - 10_000))
        server.wait_until(lambda: not unread_bytes(server.url))

        def others_are_served() -> bool:
            for client in clients:
                with contextlib.suppress(ConnectionError):
                    client.send(b" ")
            return server.post("/embed", texts).status_code == 200

        server.wait_until(others_are_served)
        refused = [client for client in clients if select.select([client], [], [], 0)[0]]
        assert len(refused) == 1, "more than needed were ended"
        response = refused[0].recv(1 << 16)
        assert response.startswith(b"HTTP/1.1 408 ") and b"connection: close" in response
        assert all(others_are_served() for _ in range(64))
    report.check(growth=700)


def test_incomplete_bodies_take_little_memory(victim: Server) -> None:
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % (8 * MB)
    with attack("200 bodies of 8 MB that lack a byte", victim) as report:
        flood(victim.url, 200, head + b" " * (8 * MB - 1), seconds=10)
    report.check(growth=700)


def test_connections_beyond_the_limit_replace_idle_ones(
    victim: Server,
) -> None:
    with attack("1,500 connections that send half a head", victim) as report, ExitStack() as stack:
        stack.enter_context(many_files(3000))
        clients = [stack.enter_context(connect(victim.url)) for _ in range(1500)]
        for client in clients:
            with contextlib.suppress(ConnectionError):  # closed in favour of a later one
                client.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\nx-a: " + b"a" * 60_000)
        time.sleep(1)
        connections = psutil.Process(victim.process.pid).net_connections("tcp")
        established = [
            connection for connection in connections if connection.status == psutil.CONN_ESTABLISHED
        ]
        assert len(established) <= 1024
    report.check(growth=300)


@contextlib.contextmanager
def many_files(count: int) -> Iterator[None]:
    """Raise the limit of open files of this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(count, before[0]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
