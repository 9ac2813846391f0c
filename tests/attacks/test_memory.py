"""Many large responses and bodies at a time, also of clients that hardly read or send."""

import contextlib
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from tests.attacks.bodies import ROWS, post
from tests.attacks.harness import MB, attack, connect, flood
from tests.service.server import Server

pytestmark = pytest.mark.attack

LARGE = b"GET /positions?scheme=sinusoidal&count=10400&dim=384 HTTP/1.1\r\nhost: localhost\r\n\r\n"


MANY = {
    "/positions of 44 MB": LARGE,
    "/similarity of 4 million scores": post("/similarity", {"a": ROWS, "b": ROWS}),
    "/tokenize of 290,000 tokens": post("/tokenize", {"inputs": ["a b " * 145] * 1000}),
}


@pytest.mark.parametrize("name", MANY)
def test_many_large_responses_are_made_a_few_at_a_time(victim: Server, name: str) -> None:
    with attack(f"50 x {name}", victim) as report:
        received = flood(victim.url, 50, MANY[name], seconds=15)
    assert max(received) > 10 * MB, "one at least is answered"
    report.check(growth=700)
    assert report.after - report.before < 150, "what they took is given back"


def test_clients_that_read_slowly_take_little_memory(victim: Server) -> None:
    with attack("50 slow readers of 44 MB", victim) as report, ExitStack() as stack:
        clients = [stack.enter_context(connect(victim.url)) for _ in range(50)]
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            client.sendall(LARGE)
            client.settimeout(0.01)
        until = time.monotonic() + 15
        while time.monotonic() < until:
            for client in clients:
                try:
                    client.recv(1 << 14)
                except TimeoutError:
                    continue
    report.check(growth=700)


def test_bodies_that_are_never_whole_take_little_memory(victim: Server) -> None:
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % (8 * MB)
    with attack("200 bodies of 8 MB that lack a byte", victim) as report:
        flood(victim.url, 200, head + b" " * (8 * MB - 1), seconds=10)
    report.check(growth=700)


def test_connections_beyond_the_limit_take_the_place_of_those_that_do_nothing(
    victim: Server,
) -> None:
    with attack("1,500 connections that send half a head", victim) as report, ExitStack() as stack:
        stack.enter_context(many_files(3000))
        clients = [stack.enter_context(connect(victim.url)) for _ in range(1500)]
        for client in clients:
            with contextlib.suppress(ConnectionError):  # it is closed for one that came later
                client.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\nx-a: " + b"a" * 60_000)
        time.sleep(1)
        connections = psutil.Process(victim.process.pid).net_connections("tcp")
        taken = [each for each in connections if each.status == psutil.CONN_ESTABLISHED]
        assert len(taken) <= 1024
    report.check(growth=300)


@contextlib.contextmanager
def many_files(count: int) -> Iterator[None]:
    """Let this process have so many open files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(count, before[0]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
