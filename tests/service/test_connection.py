"""Connections: what leaves together, and what is not waited for."""

import asyncio
import http.client
import itertools
import json
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from service.connection import Gathered
from tests.service.server import Server


class Pipe(asyncio.Transport):
    """Remembers what is sent at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        assert not self.closed
        self.sent.append(b"".join(parts))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def test_what_is_written_in_one_turn_is_sent_together() -> None:
    async def run() -> None:
        pipe = Pipe()
        gathered = Gathered(pipe, asyncio.get_running_loop())
        gathered.write(b"head ")
        gathered.write(b"body")
        assert pipe.sent == []
        await asyncio.sleep(0)
        gathered.write(b"more")
        await asyncio.sleep(0)
        assert pipe.sent == [b"head body", b"more"]

    asyncio.run(run())


def test_closing_sends_what_is_held_and_nothing_after() -> None:
    async def run() -> None:
        pipe = Pipe()
        gathered = Gathered(pipe, asyncio.get_running_loop())
        gathered.write(b"last")
        gathered.close()
        gathered.write(b"late")
        await asyncio.sleep(0)
        assert pipe.closed and pipe.sent == [b"last"]

    asyncio.run(run())


def place(server: Server) -> tuple[str, int]:
    host, port = server.url.removeprefix("http://").split(":")
    return host, int(port)


def raw(server: Server) -> socket.socket:
    return socket.create_connection(place(server), timeout=10)


def test_a_client_that_asks_first_is_told_to_go_on(server: Server) -> None:
    body = json.dumps({"inputs": "a"}).encode()
    head = f"POST /embed HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    with raw(server) as client:
        client.sendall(f"{head}expect: 100-continue\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        client.sendall(body)
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")


def test_requests_sent_in_a_row_are_answered_in_order(server: Server) -> None:
    names = [f"number-{index}" for index in range(5)]
    with raw(server) as client:
        client.sendall(
            b"".join(f"GET /live HTTP/1.1\r\nx-request-id: {n}\r\n\r\n".encode() for n in names)
        )
        found = b""
        while found.count(b'{"status":"live"}') < len(names):
            found += client.recv(10_000)
    places = [found.index(name.encode()) for name in names]
    assert places == sorted(places)


LIVE = b"GET /live HTTP/1.1\r\n\r\n"
H2C = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAA\r\n"
WEBSOCKET = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
BODY = json.dumps({"inputs": "Hello, world"}).encode()
SIZED = (b"content-length: %d\r\n\r\n" % len(BODY), BODY)
CHUNKED = (b"transfer-encoding: chunked\r\n\r\n", b"5\r\n%s\r\n" % BODY[:5])
REST = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY) - 5, BODY[5:])


def answer(client: socket.socket) -> tuple[int, bytes]:
    """The status and the body of the next answer."""
    found = http.client.HTTPResponse(client)
    found.begin()
    return found.status, found.read()


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
    head = b"POST /embed?a=b HTTP/1.1\r\n" + offer
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
        head = b"POST /embed HTTP/1.1\r\nx-request-id: a\r\n"
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
        client.sendall(b"POST /embed HTTP/%s\r\n" % version + offer + b"".join(SIZED))
        assert until_closed(client, []).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("offer", [H2C, WEBSOCKET])
def test_an_offer_without_a_body_is_answered(server: Server, offer: bytes) -> None:
    with raw(server) as client:
        for _ in range(2):
            client.sendall(b"GET /live HTTP/1.1\r\n" + offer + b"\r\n")
            assert answer(client) == (200, b'{"status":"live"}')


def test_a_tunnel_is_not_to_be_had(server: Server) -> None:
    with raw(server) as client:
        client.sendall(b"CONNECT example.org:80 HTTP/1.1\r\n" + H2C + b"\r\n")
        told(until_closed(client, []), 400)
    with raw(server) as client:
        client.sendall(b"CONNECT /live HTTP/1.1\r\n" + H2C + b"\r\n")
        assert answer(client)[0] == 405


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with little patience."""
    with Server(tmp_path_factory.mktemp("hasty") / "log", receive_timeout=0.5) as running:
        yield running


def until_closed(client: socket.socket, trickle: Iterable[bytes], pause: float = 0.05) -> bytes:
    """What the server sends until it closes; meanwhile the client sends something now and then."""
    client.settimeout(pause)
    more, found, begun = iter(trickle), b"", time.monotonic()
    while time.monotonic() - begun < 20:
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


def told(answer: bytes, status: int) -> Any:
    """The error of an answer in bytes that ends a connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), answer
    names = {line.partition(b":")[0] for line in head.split(b"\r\n")[1:]}
    assert {b"date", b"connection", b"x-request-id", b"x-total-us"} <= names
    assert b"connection: close" in head and b"content-length: %d" % len(body) in head
    return json.loads(body)["error"]


@pytest.mark.parametrize("before", [b"", LIVE, LIVE + LIVE])
def test_headers_that_trickle_are_given_up_in_the_one_shape(hasty: Server, before: bytes) -> None:
    head = b"POST /embed HTTP/1.1\r\nx-request-id: slow\r\nx-a: " + b"a" * 1000
    with raw(hasty) as client:
        client.sendall(before)
        begun = time.monotonic()
        found = until_closed(client, (head[i : i + 5] for i in range(0, len(head), 5)))
    assert found.count(b"HTTP/1.1 200 ") == before.count(LIVE)
    error = told(found[found.index(b"HTTP/1.1 408 ") :], 408)
    assert error["code"] == "receive_timeout" and error["request_id"] == "slow"
    assert 0.5 <= time.monotonic() - begun < 2


def test_a_connection_that_says_nothing_is_closed_without_a_word(hasty: Server) -> None:
    with raw(hasty) as client:
        assert until_closed(client, []) == b""


def test_empty_lines_are_no_request(hasty: Server) -> None:
    with raw(hasty) as client:
        assert b"200" not in until_closed(client, [b"\r\n"] * 1000)


def test_a_connection_may_rest_between_requests(hasty: Server) -> None:
    with raw(hasty) as client:
        for _ in range(2):
            client.sendall(LIVE)
            assert client.recv(10_000).startswith(b"HTTP/1.1 200 ")
            time.sleep(0.8)


def test_the_rest_of_a_body_that_was_refused_is_not_waited_for(hasty: Server) -> None:
    head = b"POST /embed HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n"
    with raw(hasty) as client:
        begun = time.monotonic()
        found = until_closed(client, [head, *[b" " * 20_000] * 1000])
    assert time.monotonic() - begun >= 0.5
    assert found.startswith(b"HTTP/1.1 413 ") and found.count(b"HTTP/1.1") == 1


def test_an_answer_under_way_is_not_cut_by_the_next_request_that_trickles(hasty: Server) -> None:
    body = json.dumps({"inputs": ["word " * 250] * 30}).encode()
    head = b"POST /embed HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body)
    with raw(hasty) as client:
        client.sendall(head + body + b"GET /live?")
        found = until_closed(client, [b"a"] * 1000)
    assert found.startswith(b"HTTP/1.1 200 ") and found.count(b"\r\n\r\n[[") == 1, found[:300]


def ask_much(server: Server) -> socket.socket:
    """A client that has asked for some 13 MB, and has room for little."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.connect(place(server))
    client.settimeout(20)
    client.sendall(b"GET /positions?scheme=sinusoidal&count=3000&dim=1000 HTTP/1.1\r\n\r\n")
    return client


def test_an_answer_that_is_not_read_is_given_up(hasty: Server) -> None:
    with ask_much(hasty) as client:
        time.sleep(2)
        found = b"".join(iter(lambda: client.recv(1 << 20), b""))
    head, _, body = found.partition(b"\r\n\r\n")
    assert b"content-length: " in head and len(body) < 10_000_000, "only what was under way"


def test_an_answer_that_is_read_slowly_comes_whole(hasty: Server) -> None:
    with ask_much(hasty) as client:
        begun, found = time.monotonic(), client.recv(1000)
        head, _, body = found.partition(b"\r\n\r\n")
        size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < size and (part := client.recv(1 << 20)):
            body += part
            time.sleep(0.005)
    assert len(body) == size and time.monotonic() - begun > 1, "twice as long as it may rest"


@pytest.mark.parametrize("head", [b"x-a: " + b"a" * 99_999, b"x-a: a\r\n" * 9999])
def test_headers_without_end_are_refused(server: Server, head: bytes) -> None:
    with raw(server) as client:
        client.sendall(b"GET /live HTTP/1.1\r\n" + head)
        error = told(until_closed(client, []), 431)
    assert error["code"] == "head_too_large"


def test_the_headers_of_one_request_are_not_added_to_those_of_another(server: Server) -> None:
    with raw(server) as client:
        for _ in range(3):
            client.sendall(b"GET /live HTTP/1.1\r\nx-a: " + b"a" * 30_000)
            time.sleep(0.05)
            client.sendall(b"\r\n\r\n")
            assert client.recv(10_000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("what", [b"\x16\x03\x01\x02\x00\x01\x00", b"HELLO\r\n\r\n"])
def test_what_is_no_http_is_told_so_in_the_one_shape(server: Server, what: bytes) -> None:
    with raw(server) as client:
        client.sendall(what)
        error = told(until_closed(client, []), 400)
    assert error["code"] == "invalid_request" and "HTTP" in error["message"]


@pytest.mark.parametrize("what", [b"GET / SMTP/9\r\n\r\n", b"X-Long: " + b"x" * 70_000])
def test_what_is_no_http_behind_a_request_leaves_its_answer_alone(
    server: Server, what: bytes
) -> None:
    body = json.dumps({"inputs": ["a text of some words"] * 200}).encode()
    with raw(server) as client:
        client.sendall(b"POST /embed HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        time.sleep(0.01)
        client.sendall(what)
        found = until_closed(client, [])
    assert found.startswith(b"HTTP/1.1 200 ") and found.count(b"HTTP/1.1 ") == 1
    head, _, rest = found.partition(b"\r\n\r\n")
    assert b"\nconnection: close" in head and len(json.loads(rest)) == 200


def test_none_of_it_is_an_unexpected_error(hasty: Server) -> None:
    assert "Traceback" not in hasty.log
