"""Requests as bytes on a socket."""

import http.client
import json
import socket
import time
from collections.abc import Iterable
from typing import Any

from tests.service.server import Server


def address_of(server: Server) -> tuple[str, int]:
    host, port = server.url.removeprefix("http://").split(":")
    return host, int(port)


def connect(server: Server) -> socket.socket:
    return socket.create_connection(address_of(server), timeout=120)


LIVE = b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n"

BODY = json.dumps({"inputs": "Hello, world"}).encode()

SIZED = (b"content-length: %d\r\n\r\n" % len(BODY), BODY)

CHUNKED = (b"transfer-encoding: chunked\r\n\r\n", b"5\r\n%s\r\n" % BODY[:5])

LAST_CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY) - 5, BODY[5:])


def read_response(client: socket.socket) -> tuple[int, bytes]:
    """The status and the body of the next response."""
    response = http.client.HTTPResponse(client)
    response.begin()
    return response.status, response.read()


def closing_error(response: bytes, status: int) -> Any:
    """The error of a response that closes the connection; checks its headers, too."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), response
    names = {line.partition(b":")[0] for line in head.split(b"\r\n")[1:]}
    assert {b"date", b"connection", b"x-request-id", b"x-total-us"} <= names
    assert b"connection: close" in head and b"content-length: %d" % len(body) in head
    return json.loads(body)


def read_until_closed(
    client: socket.socket, trickle: Iterable[bytes], pause: float = 0.05
) -> bytes:
    """Read all bytes until the server closes, while the client sends the items of `trickle`."""
    client.settimeout(pause)
    chunks, received, started = iter(trickle), b"", time.monotonic()
    while time.monotonic() - started < 120:
        try:
            client.sendall(next(chunks, b""))
            if not (chunk := client.recv(10_000)):
                return received
            received += chunk
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):  # the client sent while the server closed
            return received
    raise AssertionError(f"not closed: {received[:300]!r}")
