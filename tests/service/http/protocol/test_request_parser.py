"""Requests to upgrade to another protocol are answered in HTTP/1.1."""

import itertools
import socket
import time
from collections.abc import Iterable

import pytest
from starlette.types import Scope

from embedwell.http.protocol.request_parser import RequestParser
from tests.service.http.protocol.raw_http import (
    CHUNKED,
    LAST_CHUNK,
    LIVE,
    SIZED,
    closing_error,
    connect,
    read_response,
    read_until_closed,
)
from tests.service.server import Server

HTTP2 = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAA\r\n"
WEBSOCKET = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"


@pytest.mark.parametrize("upgrade", [HTTP2, WEBSOCKET])
@pytest.mark.parametrize(
    ("body_parts", "cuts"),
    [
        (b"".join(SIZED), []),
        (b"".join(SIZED), [len(SIZED[0])]),
        (b"".join(SIZED), [5]),
        (b"".join(SIZED), [5, len(SIZED[0]) - 2, len(SIZED[0]) + 1]),
        (b"".join(SIZED), range(-40, len(b"".join(SIZED)))),
        (b"".join(CHUNKED) + LAST_CHUNK, []),
        (b"".join(CHUNKED) + LAST_CHUNK, [len(CHUNKED[0])]),
        (b"".join(CHUNKED) + LAST_CHUNK, [5, len(b"".join(CHUNKED))]),
    ],
)
def test_an_upgrade_request_is_answered_in_http_1(
    server: Server, upgrade: bytes, body_parts: bytes, cuts: Iterable[int]
) -> None:
    head = b"POST /embed?a=b HTTP/1.1\r\nhost: localhost\r\n" + upgrade
    message = head + body_parts
    positions = [0, *(len(head) + cut for cut in cuts), len(message)]
    with connect(server) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(2):
            for start, end in itertools.pairwise(positions):
                client.sendall(message[start:end])
                time.sleep(0.002)
            status, body = read_response(client)
            assert (status, body[:2]) == (200, b"[["), body[:300]
        client.sendall(LIVE)
        assert read_response(client) == (200, b'{"status":"live"}')


def test_pipelined_upgrade_requests_are_answered_in_order(server: Server) -> None:
    with connect(server) as client:
        head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\nx-request-id: a\r\n"
        client.sendall((head + HTTP2 + b"".join(SIZED)) * 3 + LIVE)
        received = b""
        while not received.endswith(b'{"status":"live"}'):
            chunk = client.recv(100_000)
            assert chunk, received[:300]
            received += chunk
    assert received.count(b"HTTP/1.1 200 ") == 4 and received.count(b"x-request-id: a\r\n") == 3


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_upgrade_request_may_close_the_connection(server: Server, version: bytes) -> None:
    with connect(server) as client:
        upgrade = b"connection: close, upgrade\r\nupgrade: h2c\r\n"
        client.sendall(
            b"POST /embed HTTP/%s\r\nhost: localhost\r\n" % version + upgrade + b"".join(SIZED)
        )
        assert read_until_closed(client, []).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("upgrade", [HTTP2, WEBSOCKET])
def test_an_upgrade_request_without_a_body_is_answered(server: Server, upgrade: bytes) -> None:
    with connect(server) as client:
        for _ in range(2):
            client.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\n" + upgrade + b"\r\n")
            assert read_response(client) == (200, b'{"status":"live"}')


def test_connect_is_refused(server: Server) -> None:
    with connect(server) as client:
        client.sendall(b"CONNECT example.org:80 HTTP/1.1\r\nhost: localhost\r\n" + HTTP2 + b"\r\n")
        closing_error(read_until_closed(client, []), 400)
    with connect(server) as client:
        client.sendall(b"CONNECT /live HTTP/1.1\r\nhost: localhost\r\n" + HTTP2 + b"\r\n")
        assert read_response(client)[0] == 405


class Heads:
    """Keeps the heads of requests."""

    def __init__(self) -> None:
        self.paths: list[tuple[str, bytes, bytes]] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.asked: list[tuple[bool, bool]] = []

    def start_request(self, scope: Scope, keep_alive: bool, expects_continue: bool) -> None:
        self.paths.append((scope["path"], scope["raw_path"], scope["query_string"]))
        self.headers.append(scope["headers"])
        self.asked.append((keep_alive, expects_continue))


def test_the_names_of_headers_are_in_lower_case_and_their_values_as_they_came() -> None:
    heads = Heads()
    RequestParser(heads).feed(b"GET /live HTTP/1.1\r\nHost: A\r\nX-Request-Id: Bc\r\n\r\n")
    assert heads.headers == [[(b"host", b"A"), (b"x-request-id", b"Bc")]]


@pytest.mark.parametrize(("version", "is_known"), [(b"1.0", False), (b"1.1", True)])
def test_http_1_0_knows_no_later_request_and_no_status_100(version: bytes, is_known: bool) -> None:
    heads, asking = Heads(), b"connection: keep-alive\r\nexpect: 100-continue\r\n"
    RequestParser(heads).feed(b"GET /live HTTP/%s\r\nhost: a\r\n%s\r\n" % (version, asking))
    assert heads.asked == [(is_known, is_known)]


def test_a_path_is_decoded_and_a_query_is_not() -> None:
    heads = Heads()
    RequestParser(heads).feed(b"GET /models/org%2Fname?a=%20 HTTP/1.1\r\nhost: a\r\n\r\n")
    assert heads.paths == [("/models/org/name", b"/models/org%2Fname", b"a=%20")]


def test_bytes_after_the_last_request_of_a_connection_are_no_error() -> None:
    heads = Heads()
    parser = RequestParser(heads)
    parser.feed(b"GET /live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
    parser.feed(b"GET /live HTTP/1.1\r\nhost: a\r\n\r\n")
    assert heads.asked[0] == (False, False)


def test_a_request_begins_with_the_empty_lines_before_it() -> None:
    parser, states = RequestParser(Heads()), list[bool]()
    for part in (b"", b"\r\n", b"GET /live HTTP/1.1\r\nhost: a\r\n\r\n"):
        parser.feed(part)
        states.append(parser.is_incomplete)
    assert states == [False, True, False], "empty lines have a limit of time and size, too"
