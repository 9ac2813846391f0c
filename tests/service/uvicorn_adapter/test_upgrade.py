"""Offers to speak another protocol are declined by an answer in this one."""

import itertools
import socket
import time
from collections.abc import Iterable

import pytest

from tests.service.server import Server
from tests.service.uvicorn_adapter.raw_http import (
    CHUNKED,
    LIVE,
    REST,
    SIZED,
    answer,
    raw,
    told,
    until_closed,
)

H2C = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAA\r\n"
WEBSOCKET = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"


@pytest.mark.parametrize("offer", [H2C, WEBSOCKET])
@pytest.mark.parametrize(
    ("rest", "cuts"),
    [
        (b"".join(SIZED), []),
        (b"".join(SIZED), [len(SIZED[0])]),
        (b"".join(SIZED), [5]),
        (b"".join(SIZED), [5, len(SIZED[0]) - 2, len(SIZED[0]) + 1]),
        (b"".join(SIZED), range(-40, len(b"".join(SIZED)))),
        (b"".join(CHUNKED) + REST, []),
        (b"".join(CHUNKED) + REST, [len(CHUNKED[0])]),
        (b"".join(CHUNKED) + REST, [5, len(b"".join(CHUNKED))]),
    ],
)
def test_an_offer_of_another_protocol_is_a_request_like_any(
    server: Server, offer: bytes, rest: bytes, cuts: Iterable[int]
) -> None:
    head = b"POST /embed?a=b HTTP/1.1\r\nhost: localhost\r\n" + offer
    whole = head + rest
    places = [0, *(len(head) + cut for cut in cuts), len(whole)]
    with raw(server) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(2):
            for start, end in itertools.pairwise(places):
                client.sendall(whole[start:end])
                time.sleep(0.002)
            status, body = answer(client)
            assert (status, body[:2]) == (200, b"[["), body[:300]
        client.sendall(LIVE)
        assert answer(client) == (200, b'{"status":"live"}')


def test_offers_sent_in_a_row_are_answered_in_order(server: Server) -> None:
    with raw(server) as client:
        head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\nx-request-id: a\r\n"
        client.sendall((head + H2C + b"".join(SIZED)) * 3 + LIVE)
        found = b""
        while not found.endswith(b'{"status":"live"}'):
            part = client.recv(100_000)
            assert part, found[:300]
            found += part
    assert found.count(b"HTTP/1.1 200 ") == 4 and found.count(b"x-request-id: a\r\n") == 3


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_the_last_request_of_a_connection_may_offer_another_protocol(
    server: Server, version: bytes
) -> None:
    with raw(server) as client:
        offer = b"connection: close, upgrade\r\nupgrade: h2c\r\n"
        client.sendall(
            b"POST /embed HTTP/%s\r\nhost: localhost\r\n" % version + offer + b"".join(SIZED)
        )
        assert until_closed(client, []).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("offer", [H2C, WEBSOCKET])
def test_an_offer_without_a_body_is_answered(server: Server, offer: bytes) -> None:
    with raw(server) as client:
        for _ in range(2):
            client.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\n" + offer + b"\r\n")
            assert answer(client) == (200, b'{"status":"live"}')


def test_a_tunnel_is_not_to_be_had(server: Server) -> None:
    with raw(server) as client:
        client.sendall(b"CONNECT example.org:80 HTTP/1.1\r\nhost: localhost\r\n" + H2C + b"\r\n")
        told(until_closed(client, []), 400)
    with raw(server) as client:
        client.sendall(b"CONNECT /live HTTP/1.1\r\nhost: localhost\r\n" + H2C + b"\r\n")
        assert answer(client)[0] == 405
