"""Requests that are quick to send but expensive to parse."""

import gzip
import json

import pytest

from tests.attacks.bodies import ROWS, post
from tests.attacks.harness import MB, attack, flood
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
