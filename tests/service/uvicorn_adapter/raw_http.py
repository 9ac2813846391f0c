"""Requests as bytes on a socket."""

import http.client
import json
import socket
import time
from collections.abc import Iterable
from typing import Any

from tests.service.server import Server


def place(server: Server) -> tuple[str, int]:
    host, port = server.url.removeprefix("http://").split(":")
    return host, int(port)


def raw(server: Server) -> socket.socket:
    return socket.create_connection(place(server), timeout=120)


LIVE = b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n"

BODY = json.dumps({"inputs": "Hello, world"}).encode()

SIZED = (b"content-length: %d\r\n\r\n" % len(BODY), BODY)

CHUNKED = (b"transfer-encoding: chunked\r\n\r\n", b"5\r\n%s\r\n" % BODY[:5])

REST = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY) - 5, BODY[5:])


def answer(client: socket.socket) -> tuple[int, bytes]:
    """The status and the body of the next answer."""
    found = http.client.HTTPResponse(client)
    found.begin()
    return found.status, found.read()


def told(answer: bytes, status: int) -> Any:
    """The error of an answer in bytes that ends a connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), answer
    names = {line.partition(b":")[0] for line in head.split(b"\r\n")[1:]}
    assert {b"date", b"connection", b"x-request-id", b"x-total-us"} <= names
    assert b"connection: close" in head and b"content-length: %d" % len(body) in head
    return json.loads(body)


def until_closed(client: socket.socket, trickle: Iterable[bytes], pause: float = 0.05) -> bytes:
    """What the server sends until it closes; meanwhile the client sends something now and then."""
    client.settimeout(pause)
    more, found, begun = iter(trickle), b"", time.monotonic()
    while time.monotonic() - begun < 120:
        try:
            client.sendall(next(more, b""))
            if not (part := client.recv(10_000)):
                return found
            found += part
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):  # of bytes that crossed the end
            return found
    raise AssertionError(f"not closed: {found[:300]!r}")
