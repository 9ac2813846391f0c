"""Requests that are quick to send but expensive to parse."""

import contextlib
import gzip
import json
import sys

import pytest

from tests.attacks.harness import MB, ROWS, attack, connect, flood, post
from tests.service.server import Server

pytestmark = pytest.mark.attack

HEAD = b"POST /embed HTTP/1.1\r\nhost: localhost\r\n"


def compressed(body: bytes) -> bytes:
    head = HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body


EMPTY = gzip.compress(b"")
EXPENSIVE_BODIES = {
    "8 KB of gzip that are 8 MB of spaces": compressed(
        gzip.compress(b'{"inputs": "a"%s}' % (b" " * (8 * MB - 16)))
    ),
    "8 MB of empty members of gzip": compressed(EMPTY * (8 * MB // len(EMPTY))),
    "2 KB of gzip that are a million ids": compressed(
        gzip.compress(b'{"inputs": [%s]}' % b",".join([b"1"] * 999_999))
    ),
    "a million numbers to compare": post(
        "/similarity", {"a": [[0.1234] * 800] * 990, "b": [[0.1234] * 800]}
    ),
    "1,999 x 1,999 to compare": post("/similarity", {"a": ROWS, "b": ROWS}),
}


@pytest.mark.parametrize("name", EXPENSIVE_BODIES)
def test_expensive_bodies_do_not_block_other_requests(victim: Server, name: str) -> None:
    with attack(f"8 clients with {name}", victim) as report:
        flood(victim.url, 8, EXPENSIVE_BODIES[name] * 10, seconds=8)
    report.check(growth=700)
    assert json.loads(victim.post("/embed", {"inputs": "a"}).content)


def test_a_flood_of_requests_for_the_document_does_not_delay_others(victim: Server) -> None:
    request = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\n\r\n"
    with attack("16 clients that read /openapi.json", victim) as report:
        flood(victim.url, 16, request * 2000, seconds=6)
    report.check(growth=100)


def test_invalid_requests_do_not_flood_the_log(victim: Server) -> None:
    with attack("2,000 invalid requests", victim) as report:
        for _ in range(2000):
            with connect(victim.url) as client, contextlib.suppress(ConnectionError):
                client.sendall(b"GARBAGE\r\n\r\n")
                assert client.recv(1000).startswith(b"HTTP/1.1 400 ")
    report.check(growth=50)
    lines = victim.log.count("not a valid HTTP request")
    sys.stdout.write(f"2,000 invalid requests: {lines} lines of the log\n")
    assert 1 <= lines < 200
