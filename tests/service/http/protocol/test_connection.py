"""Connections: parsing, order of responses, timeouts, size limits and backpressure."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from starlette.types import Receive, Scope, Send

from embedwell.compute.request_limits import MemoryBudget, Reservation
from embedwell.errors import Overloaded
from embedwell.http.protocol.connection import Connection
from embedwell.http.request_context import RequestContext
from embedwell.launch.supervised import HTTP_PROCESS
from tests.service.http.protocol.raw_http import (
    CHUNKED,
    LAST_CHUNK,
    LIVE,
    SIZED,
    address_of,
    closing_error,
    connect,
    read_response,
    read_until_closed,
)
from tests.service.in_process_server import OK, HeldTimeouts, PausedApp, RunningApp, serve
from tests.service.server import Server

OTHER = LIVE.replace(b"/live", b"/other")


def test_expect_100_continue_is_answered_before_the_body_is_sent(server: Server) -> None:
    body = json.dumps({"inputs": "a"}).encode()
    head = f"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    with connect(server) as client:
        client.sendall(f"{head}expect: 100-continue\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        client.sendall(body)
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/xml", b"415"),
        (b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999", b"413"),
        (b"POST /nowhere HTTP/1.1\r\nhost: localhost", b"404"),
    ],
)
def test_a_refused_expect_100_continue_closes_the_connection(
    server: Server, line: bytes, status: bytes
) -> None:
    length = b"" if b"length" in line else b"content-length: 22\r\n"
    with connect(server) as client:
        client.sendall(line + b"\r\nexpect: 100-continue\r\n" + length + b"\r\n")
        received = read_until_closed(client, [])
    assert received.startswith(b"HTTP/1.1 " + status)
    assert received.count(b"HTTP/1.1") == received.count(b"\r\nconnection: close\r\n") == 1


def test_expect_100_continue_with_the_body_already_sent_keeps_the_connection(
    server: Server,
) -> None:
    head = POST + b"content-type: text/xml\r\nexpect: 100-continue\r\n"
    with connect(server) as client:
        client.sendall(head + b"".join(SIZED))
        assert read_response(client)[0] == 415
        client.sendall(LIVE)
        assert read_response(client)[0] == 200


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    names = [f"number-{index}" for index in range(5)]
    with connect(server) as client:
        client.sendall(
            b"".join(
                f"GET /live HTTP/1.1\r\nhost: localhost\r\nx-request-id: {n}\r\n\r\n".encode()
                for n in names
            )
        )
        received = b""
        while received.count(b'{"status":"live"}') < len(names):
            received += client.recv(10_000)
    positions = [received.index(name.encode()) for name in names]
    assert positions == sorted(positions)


POST = b"POST /embed HTTP/1.1\r\nhost: localhost\r\n"
UPGRADE_TO_HTTP2 = b"connection: upgrade\r\nupgrade: h2c\r\n"


@pytest.fixture(scope="module")
def impatient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short timeouts."""
    with Server(tmp_path_factory.mktemp("hasty") / "log", receive_timeout=0.5) as running:
        yield running


@pytest.mark.parametrize("before", [b"", LIVE, LIVE + LIVE])
@pytest.mark.full
def test_slow_headers_time_out_with_a_json_error(impatient_server: Server, before: bytes) -> None:
    head = b"POST /embed HTTP/1.1\r\nx-request-id: slow\r\nhost: localhost\r\nx-a: " + b"a" * 1000
    with connect(impatient_server) as client:
        client.sendall(before)
        received = read_until_closed(client, (head[i : i + 5] for i in range(0, len(head), 5)))
    assert received.count(b"HTTP/1.1 200 ") == before.count(LIVE)
    error = closing_error(received[received.index(b"HTTP/1.1 408 ") :], 408)
    assert error["code"] == "receive_timeout" and error["request_id"] == "slow"


@pytest.mark.full
def test_an_idle_new_connection_is_closed_without_a_response(impatient_server: Server) -> None:
    with connect(impatient_server) as client:
        assert read_until_closed(client, []) == b""


def test_empty_lines_are_not_a_request(impatient_server: Server) -> None:
    with connect(impatient_server) as client:
        assert b"200" not in read_until_closed(client, [b"\r\n"] * 1000)


def test_a_connection_may_be_idle_between_requests(impatient_server: Server) -> None:
    with connect(impatient_server) as client:
        for _ in range(2):
            client.sendall(LIVE)
            assert client.recv(10_000).startswith(b"HTTP/1.1 200 ")
            time.sleep(0.8)


def test_the_rest_of_a_refused_body_is_not_awaited(impatient_server: Server) -> None:
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\n\r\n"
    with connect(impatient_server) as client:
        received = read_until_closed(client, [head, *[b" " * 20_000] * 1000])
    assert received.startswith(b"HTTP/1.1 413 ") and received.count(b"HTTP/1.1") == 1


def test_a_slow_next_request_does_not_cut_off_the_current_response(
    impatient_server: Server,
) -> None:
    body = json.dumps({"inputs": ["word " * 250] * 30}).encode()
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    with connect(impatient_server) as client:
        client.sendall(head + body + b"GET /live?")
        received = read_until_closed(client, [b"a"] * 1000)
    assert received.startswith(b"HTTP/1.1 200 ") and received.count(b"\r\n\r\n[[") == 1, received[
        :300
    ]


MB = 1 << 20
REFUSED_WHILE_SENDING = {
    "an unknown method": (b"PRONTO /embed HTTP/1.1\r\nhost: localhost\r\n%s\r\n", 400),
    "a URL that is not ASCII": (b"POST /\xff HTTP/1.1\r\nhost: localhost\r\n%s\r\n", 400),
    "190 KB of headers": (
        b"POST /embed HTTP/1.1\r\nhost: localhost\r\nx-a: " + b"a" * 190_000 + b"\r\n%s\r\n",
        431,
    ),
    "too large a body": (b"POST /embed HTTP/1.1\r\nhost: localhost\r\n%s\r\n", 413),
    "the end of the connection": (
        b"POST /embed HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n%s\r\n",
        413,
    ),
}


@pytest.mark.parametrize("case", REFUSED_WHILE_SENDING)
def test_a_client_refused_while_sending_can_finish_and_read_the_response(
    server: Server, case: str
) -> None:
    head, status = REFUSED_WHILE_SENDING[case]
    with connect(server) as client:
        client.sendall(head % b"content-length: %d\r\n" % (20 * MB))
        for _ in range(20):
            client.sendall(b" " * MB)
        assert read_response(client)[0] == status


def test_a_refused_client_that_never_stops_sending_is_disconnected(
    impatient_server: Server,
) -> None:
    with connect(impatient_server) as client:
        client.sendall(b"PRONTO / HTTP/1.1\r\nhost: localhost\r\n")
        with pytest.raises(ConnectionError):
            while True:
                client.sendall(b" " * MB)


def test_shutdown_does_not_wait_for_a_refused_client_that_keeps_sending() -> None:
    async def run() -> None:
        async with serve(PausedApp(), timeouts=60) as server, server.client() as client:
            client.send(b"PRONTO / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert (await client.receive(100)).startswith(b"HTTP/1.1 400 ")
            (connection,) = server.state.connections
            assert isinstance(connection, Connection)
            connection.shutdown()
            while server.state.connections:
                await asyncio.sleep(0.01)

    asyncio.run(run())


def has_connection(server: Server, port: int) -> bool:
    """Whether a process of a server has accepted the connection of a client's port."""
    first = psutil.Process(server.process.pid)
    processes = [first, *first.children(recursive=True)]
    connections = [each for process in processes for each in process.net_connections()]
    return any(port in each.raddr for each in connections)


def request_large_response(server: Server) -> socket.socket:
    """A client with a small receive buffer that has requested some 13 MB."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.connect(address_of(server))
    client.settimeout(120)
    client.sendall(
        b"GET /positions?scheme=sinusoidal&count=3000&dim=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    )
    return client


def test_a_response_that_is_not_read_is_aborted(impatient_server: Server) -> None:
    with request_large_response(impatient_server) as client:
        client.recv(1, socket.MSG_PEEK)  # the server has accepted the connection
        port = client.getsockname()[1]
        impatient_server.wait_until(lambda: has_connection(impatient_server, port))
        impatient_server.wait_until(lambda: not has_connection(impatient_server, port))
        received = b"".join(iter(lambda: client.recv(1 << 20), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"content-length: " in head and len(body) < 10_000_000, "only the buffered part was sent"


def test_a_small_unread_remainder_of_a_response_is_aborted() -> None:
    async def run() -> None:
        app, timeouts = PausedApp(times=30_000), HeldTimeouts()
        app.resume.set()
        async with serve(app, timeouts) as server, server.client() as client:
            client.send(b"GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n")
            connection = await connection_when(server, lambda each: each.write_paused)
            assert 0 < connection.transport.get_write_buffer_size() < 1 << 16
            async with asyncio.timeout(120):
                while server.state.connections:  # the kernel may still deliver some of it
                    timeouts.expire_all()
                    await asyncio.sleep(0.01)

    asyncio.run(run())


async def connection_when(
    server: RunningApp, condition: Callable[[Connection], object]
) -> Connection:
    """Wait until a condition holds of the only connection; fails after two minutes."""
    async with asyncio.timeout(120):
        while not any(map(condition, server.state.connections)):
            await asyncio.sleep(0.01)
    (connection,) = server.state.connections
    assert isinstance(connection, Connection)
    return connection


async def wait_until_empty(connections: set[Any]) -> None:
    """Wait until a server has no connection or task; fails after two minutes."""
    async with asyncio.timeout(120):
        while connections:
            await asyncio.sleep(0.01)


def test_a_response_that_was_read_has_no_time_limit() -> None:
    async def run() -> None:
        app, timeouts = PausedApp(times=30_000), HeldTimeouts()
        app.resume.set()
        async with serve(app, timeouts) as server, server.client() as client:
            for _ in range(2):
                client.send(b"GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n")
                received = b""
                while received.count(b"/a") < 30_000:
                    received += await client.receive(100_000)
                await connection_when(server, lambda each: not each.write_paused)
                timeouts.expire_all()

    asyncio.run(run())


GET = b"GET /a HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize("earlier", [b"", GET.replace(b"connection: close\r\n", b"")])
def test_a_client_that_stops_reading_gives_way_to_others(
    earlier: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        app, budget = PausedApp(1_000_000, memory=500_000), MemoryBudget(1_000_000, max_pause=0)
        app.resume.set()
        async with (
            serve(app, timeouts=1000, budget=budget) as server,
            server.client() as slow,
            server.client() as new,
        ):
            slow.send(earlier + GET)
            while earlier and app.requests_started < 2:
                await slow.receive(10_000)
            connections: set[Any] = server.state.connections
            while not any(each.write_paused for each in connections):
                await asyncio.sleep(0.01)
            Reservation(budget).grow(400_000)
            assert budget.reserved == 900_000
            new.send(GET)
            received = await new.receive_all()
            assert received.startswith(OK) and received.endswith(b"/a" * 1_000_000)
            with contextlib.suppress(ConnectionResetError):
                assert not (await slow.receive_all()).endswith(b"/a" * 1_000_000)
            await wait_until_empty(connections)
            assert budget.reserved == 400_000

    asyncio.run(run())
    assert caplog.text.count("because the client does not read the response") == 1


def test_a_client_that_reads_again_does_not_give_way() -> None:
    async def run() -> None:
        app, budget = PausedApp(1_000_000, memory=500_000), MemoryBudget(1_000_000, max_pause=0)
        app.resume.set()
        async with serve(app, budget=budget) as server, server.client() as client:
            client.send(GET.replace(b"connection: close\r\n", b""))
            await connection_when(server, lambda each: each.write_paused)
            received = b""
            while received.count(b"/a") < 1_000_000:
                received += await client.receive(100_000)
            await connection_when(server, lambda each: not each.write_paused)
            app.resume.clear()
            client.send(GET)
            while app.requests_started < 2:
                await asyncio.sleep(0.01)
            with pytest.raises(Overloaded):
                Reservation(budget).grow(600_000)
            app.resume.set()
            assert (await client.receive_all()).endswith(b"/a" * 1_000_000)

    asyncio.run(run())


def test_the_rest_of_a_body_after_its_response_has_one_time_limit() -> None:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def run() -> None:
        timeouts = HeldTimeouts()
        async with serve(refuse, timeouts=timeouts) as server, server.client() as client:
            client.send(b"POST /a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\na")
            assert (await client.receive(1000)).startswith(b"HTTP/1.1 400 ")
            timeouts.expire_all()
            await wait_until_empty(server.state.connections)

    asyncio.run(run())


def test_an_application_that_has_begun_to_respond_is_told_that_the_client_is_gone() -> None:
    async def run() -> None:
        messages = list[Any]()

        async def stream(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
            messages.append(await receive())

        async with serve(stream) as server:
            async with server.client() as client:
                client.send(LIVE)
                assert (await client.receive(1000)).startswith(OK)
            async with asyncio.timeout(60):
                while not messages:
                    await asyncio.sleep(0.01)
        assert messages == [{"type": "http.disconnect"}]

    asyncio.run(run())


@pytest.mark.parametrize("head", [b"x-a: " + b"a" * 99_999, b"x-a: a\r\n" * 9999])
def test_endless_headers_are_refused(server: Server, head: bytes) -> None:
    with connect(server) as client:
        client.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\n" + head)
        error = closing_error(read_until_closed(client, []), 431)
    assert error["code"] == "head_too_large"


@pytest.mark.parametrize("url", [b"/" + b"a" * (size - 1) for size in (65_536, 70_000)])
def test_the_error_of_a_too_long_url_names_the_limit(server: Server, url: bytes) -> None:
    with connect(server) as client:
        client.sendall(b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % url)
        error = closing_error(read_until_closed(client, []), 431)
    assert error["code"] == "head_too_large" and "65536 bytes" in error["error"]


def test_a_url_of_nearly_the_maximum_length_is_answered(server: Server) -> None:
    with connect(server) as client:
        client.sendall(b"GET /live?" + b"a" * 65_380 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert read_response(client)[0] == 200


def test_the_size_limit_of_headers_applies_to_each_request_alone(server: Server) -> None:
    with connect(server) as client:
        for _ in range(3):
            client.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\nx-a: " + b"a" * 30_000)
            time.sleep(0.05)
            client.sendall(b"\r\n\r\n")
            assert client.recv(10_000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x02\x00\x01\x00", b"HELLO\r\n\r\n"])
def test_bytes_that_are_not_http_get_a_json_error(server: Server, junk: bytes) -> None:
    with connect(server) as client:
        client.sendall(junk)
        error = closing_error(read_until_closed(client, []), 400)
    assert error["code"] == "invalid_request" and "HTTP" in error["error"]


@pytest.mark.parametrize("junk", [b"GET / SMTP/9\r\n\r\n", b"X-Long: " + b"x" * 70_000])
def test_invalid_http_after_a_request_does_not_affect_its_response(
    server: Server, junk: bytes
) -> None:
    body = json.dumps({"inputs": ["a text of some words"] * 200}).encode()
    with connect(server) as client:
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s"
            % (len(body), body)
        )
        time.sleep(0.01)
        client.sendall(junk)
        received = read_until_closed(client, [])
    assert received.startswith(b"HTTP/1.1 200 ") and received.count(b"HTTP/1.1 ") == 1
    head, _, rest = received.partition(b"\r\n\r\n")
    assert b"\nconnection: close" in head and len(json.loads(rest)) == 200


@pytest.mark.parametrize("cut", [0, 60, 105])
def test_trailers_are_not_read_as_headers(server: Server, cut: int) -> None:
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\nx-request-id: mine\r\n" + b"".join(CHUNKED)
    trailer = b"x-request-id: other\r\ncontent-encoding: gzip\r\nexpect: 100-continue\r\n"
    message = head + LAST_CHUNK[:-2] + trailer + b"\r\n" + LIVE
    with connect(server) as client:
        client.sendall(message[:cut])
        time.sleep(0.01)
        client.sendall(message[cut:])
        received = b""
        while not received.endswith(b'{"status":"live"}'):
            received += client.recv(100_000)
    assert received.startswith(b"HTTP/1.1 200 ") and b"x-request-id: mine\r\n" in received
    assert b"x-request-id: other" not in received


def test_a_request_id_in_a_trailer_is_not_used_for_later_errors(server: Server) -> None:
    with connect(server) as client:
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\n" + b"".join(CHUNKED) + LAST_CHUNK[:-2]
        )
        client.sendall(b"x-request-id: other\r\n\r\n")
        assert read_response(client)[0] == 200
        client.sendall(b"\r\n" * 40_000)
        assert closing_error(read_until_closed(client, []), 431)["request_id"] != "other"


def test_the_error_of_an_invalid_request_has_its_request_id(server: Server) -> None:
    with connect(server) as client:
        client.sendall(b"GET http://x HTTP/1.1\r\nhost: localhost\r\nx-request-id: mine\r\n\r\n")
        assert closing_error(read_until_closed(client, []), 400)["request_id"] == "mine"


ENDLESS = [b"x-a: " + b"a" * 99_999, b"x-a: a\r\n" * 12_000]


@pytest.mark.parametrize("rest", [*(b"0\r\n" + line for line in ENDLESS), b"5;" + b"a" * 99_999])
def test_endless_trailers_and_chunk_extensions_are_refused(server: Server, rest: bytes) -> None:
    with connect(server) as client:
        client.sendall(b"POST /embed HTTP/1.1\r\nhost: localhost\r\n" + b"".join(CHUNKED) + rest)
        error = closing_error(read_until_closed(client, []), 431)
    assert error["code"] == "head_too_large"


def test_endless_trailers_after_the_response_close_the_connection(
    server: Server,
) -> None:
    with connect(server) as client:
        client.sendall(b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\n" + b"".join(CHUNKED))
        assert read_response(client)[0] == 404
        client.sendall(LAST_CHUNK[:-2] + ENDLESS[0])
        assert read_until_closed(client, []) == b""


@pytest.mark.parametrize("rest", [b"zz\r\n", b"5\r\nhelloXX", b"0\r\nno trailer\r\n\r\n"])
@pytest.mark.parametrize("pause", [0, 0.02])
def test_a_malformed_chunked_body_is_refused_at_once(
    server: Server, rest: bytes, pause: float
) -> None:
    with connect(server) as client:
        client.sendall(LIVE)
        read_response(client)
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\nx-request-id: b\r\n" + b"".join(CHUNKED)
        )
        time.sleep(pause)
        client.sendall(rest)
        error = closing_error(read_until_closed(client, []), 400)
    assert error["code"] == "invalid_request" and error["request_id"] == "b"


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"gzip\r\ntransfer-encoding: chunked"])
def test_an_unsupported_transfer_encoding_is_refused(server: Server, coding: bytes) -> None:
    with connect(server) as client:
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: %s\r\n\r\n" % coding
        )
        client.sendall(CHUNKED[1] + LAST_CHUNK)
        status, body = read_response(client)
        assert (status, json.loads(body)["code"]) == (501, "unsupported_coding")
        client.sendall(LIVE)
        assert read_response(client)[0] == 200


def test_transfer_encoding_names_are_case_insensitive(server: Server) -> None:
    with connect(server) as client:
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: Chunked\r\n\r\n"
        )
        client.sendall(CHUNKED[1] + LAST_CHUNK)
        assert read_response(client)[0] == 200


def test_a_transfer_encoding_without_an_end_is_refused_at_once(server: Server) -> None:
    with connect(server) as client:
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: identity\r\n\r\n"
        )
        closing_error(read_until_closed(client, []), 400)


@pytest.mark.parametrize("line", ENDLESS)
def test_endless_headers_of_a_pipelined_request_close_the_connection(line: bytes) -> None:
    async def run() -> None:
        app = PausedApp()
        async with serve(app) as server, server.client() as client:
            client.send(b"GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n" + LIVE[:-2])
            for _ in range(10):
                client.send(line)
                await asyncio.sleep(0.01)
            client.send(b"\r\n" + LIVE)
            await asyncio.sleep(0.05)
            app.resume.set()
            received = await client.receive_all()
            assert received.startswith(OK) and received.count(OK) == 1 and app.requests_started == 1
            assert b"\r\nconnection: close\r\n" in received

    asyncio.run(run())


BROKEN = [
    b"junk junk\r\n\r\n",
    b"POST /c HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"POST /c HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: identity\r\n\r\n",
    POST + UPGRADE_TO_HTTP2 + b"transfer-encoding: a\r\n\r\n",
]


@pytest.mark.parametrize("junk", BROKEN)
@pytest.mark.parametrize("pause", [0, 0.02])
def test_requests_before_a_malformed_one_are_answered_before_the_connection_closes(
    junk: bytes, pause: float, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        app = PausedApp()
        async with serve(app, timeouts=0.2) as server, server.client() as client:
            client.send(LIVE + b"GET /b HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await asyncio.sleep(pause)
            client.send(junk)
            for _ in range(5):
                await asyncio.sleep(0.1)
                client.send(b"more\r\n")
            app.resume.set()
            received = await client.receive_all()
            assert received.count(b"HTTP/1.1 ") == received.count(OK) == 2
            assert received.endswith(b"/b") and received.count(b"connection: close") == 1

    asyncio.run(run())
    assert caplog.text.count("not a valid HTTP request") == 1


def test_a_malformed_rest_of_a_body_after_the_response_closes_the_connection(
    server: Server,
) -> None:
    with connect(server) as client:
        client.sendall(b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\n" + b"".join(CHUNKED))
        assert read_response(client)[0] == 404
        client.sendall(b"junk")
        assert read_until_closed(client, []) == b""


@pytest.mark.parametrize("partial_request", [b"", b"{", b"{" + b" " * 50_000])
def test_a_client_that_disconnects_amid_a_request_leaves_no_tasks(partial_request: bytes) -> None:
    async def run() -> None:
        app = PausedApp()
        async with serve(app) as server:
            async with server.client() as client:
                client.send(
                    b"POST /a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n"
                    + b" " * 100_000
                )
                client.send(
                    b"POST /b HTTP/1.1\r\nhost: localhost\r\ncontent-length: 60000\r\n\r\n"
                    + partial_request
                )
                size = len(partial_request)
                await connection_when(
                    server, lambda each: [len(c.body) for c in each.waiting] == [size]
                )
                while not app.requests_started:
                    await asyncio.sleep(0.01)
                assert app.requests_started == 1 and server.state.tasks
            await wait_until_empty(server.state.connections)
            await wait_until_empty(server.state.tasks)

    asyncio.run(run())


class BlockingApp:
    """Blocks the event loop for the first request until others have arrived; records the others."""

    def __init__(self) -> None:
        self.block: Callable[[], None] = lambda: None
        self.contexts = list[RequestContext]()
        self.hung_up, self.all_recorded = list[bool](), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/first":
            self.block()
            await self.all_recorded.wait()
        else:
            self.contexts.append(scope["state"]["context"])
            self.hung_up.append(self.contexts[-1].has_hung_up())
            if len(self.contexts) == 2:
                self.all_recorded.set()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def test_what_happens_while_the_event_loop_is_blocked_is_known_to_the_next_requests() -> None:
    async def run() -> None:
        app = BlockingApp()
        async with serve(app) as server, server.client() as client:
            others = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]

            def block() -> None:
                for other in others:
                    other.sendall(b"GET /other HTTP/1.1\r\nhost: localhost\r\n\r\n")
                others[1].close()
                time.sleep(0.3)

            app.block = block
            client.send(b"GET /first HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await asyncio.wait_for(app.all_recorded.wait(), 60)
            others[0].close()
        assert sorted(app.hung_up) == [False, True]
        assert all(context.total_us >= 200_000 for context in app.contexts)

    asyncio.run(run())


def test_reading_pauses_while_the_next_body_waits() -> None:
    async def run() -> None:
        app = PausedApp()
        async with serve(app) as server, server.client() as client:
            client.send(
                LIVE + b"POST /b HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900000\r\n\r\n"
            )
            client.send(b" " * 900_000)
            connection = await connection_when(server, lambda each: each.read_paused)
            assert connection.latest is not None and len(connection.latest.body) < 400_000
            app.resume.set()
            client.send(b"GET /c HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert (await client.receive_all()).count(OK) == 3

    asyncio.run(run())


def test_reading_pauses_while_many_pipelined_requests_wait() -> None:
    async def run() -> None:
        app = PausedApp()
        async with serve(app) as server, server.client() as client:
            client.send(LIVE * 5000)  # one read brings some thousands of them
            connection = await connection_when(server, lambda each: each.read_paused)
            assert len(connection.waiting) < 16 + 4096 // len(LIVE), "and those parsed with them"
            app.resume.set()
            client.send(b"GET /c HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert (await client.receive_all()).count(OK) == 5001

    asyncio.run(run())


@pytest.mark.parametrize(
    ("sent", "status"),
    [(b"junk junk\r\n\r\n", 400), (LIVE[:-2], 408), (LIVE[:-2] + ENDLESS[0], 431)],
)
def test_requests_refused_by_the_connection_are_counted(sent: bytes, status: int) -> None:
    async def run() -> None:
        async with serve(PausedApp(), timeouts=0.2) as server, server.client() as client:
            client.send(sent)
            assert (await client.receive_all()).startswith(b"HTTP/1.1 %d " % status)
            line = f'embedwell_requests_total{{path="other",status="{status}"}} 1.0'
            assert line in server.metrics.render().decode()

    asyncio.run(run())


def test_no_error_of_this_module_was_unexpected(impatient_server: Server) -> None:
    assert "Traceback" not in impatient_server.log


@pytest.mark.parametrize(
    "partial_request",
    [b"", b"\r\n", LIVE[:-2], b"POST /a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\na"],
)
def test_a_connection_beyond_the_limit_replaces_an_idle_one(partial_request: bytes) -> None:
    async def run() -> None:
        app = PausedApp()
        app.resume.set()
        async with (
            serve(app, connections=2) as server,
            server.client() as resting,
            server.client() as slow,
        ):
            resting.send(LIVE)
            assert await resting.receive(1000)
            slow.send(partial_request)
            await asyncio.sleep(0.1)
            async with server.client() as new:
                new.send(LIVE)
                assert (await new.receive(1000)).startswith(OK)
                with contextlib.suppress(ConnectionResetError):
                    assert await slow.receive_all() == b""
            resting.send(LIVE)
            assert (await resting.receive(1000)).startswith(OK)

    asyncio.run(run())


def test_the_connection_that_has_sent_nothing_for_the_longest_is_replaced() -> None:
    async def run() -> None:
        app = PausedApp()
        app.resume.set()
        async with serve(app, connections=20) as server, contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(server.client()) for _ in range(20)]
            for client in clients:
                client.send(LIVE[:-2])
                await asyncio.sleep(0.01)
            clients[0].send(LIVE[-2:-1])  # its request is incomplete, but it goes on
            await asyncio.sleep(0.1)
            for _ in range(19):
                new = await stack.enter_async_context(server.client())
                new.send(LIVE)
                assert (await new.receive(1000)).startswith(OK)
            clients[0].send(LIVE[-1:])
            assert (await clients[0].receive(1000)).startswith(OK)

    asyncio.run(run())


def test_a_connection_beyond_the_limit_replaces_the_one_that_is_idle_longest() -> None:
    async def run() -> None:
        app = PausedApp()
        app.resume.set()
        async with serve(app, connections=3) as server, contextlib.AsyncExitStack() as stack:
            first, second, third = [
                await stack.enter_async_context(server.client()) for _ in range(3)
            ]
            for client in (first, second, third, first):
                client.send(LIVE)
                assert (await client.receive(1000)).startswith(OK)
            async with server.client() as new:
                new.send(LIVE)
                assert (await new.receive(1000)).startswith(OK)
                assert await second.receive_all() == b""
            for client in (first, third):
                client.send(LIVE)
                assert (await client.receive(1000)).startswith(OK)

    asyncio.run(run())


class AppInParts(PausedApp):
    """Responds with a long first part of a body, and its end once the client has read that."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests_started += 1
        await self.resume.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a" * 1_000_000, "more_body": True})
        await send({"type": "http.response.body", "body": b"end"})


def test_a_client_that_has_just_been_sent_a_part_is_not_replaced_before_another() -> None:
    async def run() -> None:
        app = AppInParts()
        async with serve(app, connections=2) as server, server.client() as reading:
            reading.send(GET)
            async with asyncio.timeout(120):
                while not app.requests_started:
                    await asyncio.sleep(0.01)
            async with server.client() as silent:
                connections: set[Any] = server.state.connections
                async with asyncio.timeout(120):
                    while len(connections) < 2:
                        await asyncio.sleep(0.01)
                    app.resume.set()
                    while not any(each.write_paused for each in connections):
                        await asyncio.sleep(0.01)
                async with server.client() as new:
                    new.send(GET)
                    assert await silent.receive_all() == b""
                    assert (await new.receive_all()).startswith(OK)
            assert b"end" in await reading.receive_all()

    asyncio.run(run())


class BusyApp(PausedApp):
    """Responds to health checks at once."""

    def __init__(self) -> None:
        super().__init__()
        self._health_checks = PausedApp()
        self._health_checks.resume.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/live":
            await self._health_checks(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def test_a_connection_is_idle_since_the_end_of_its_response() -> None:
    async def run() -> None:
        app = BusyApp()
        async with (
            serve(app, connections=2) as server,
            server.client() as working,
            server.client() as resting,
        ):
            working.send(OTHER)
            while not app.requests_started:
                await asyncio.sleep(0.01)
            resting.send(LIVE)
            assert (await resting.receive(1000)).startswith(OK)
            app.resume.set()
            assert (await working.receive(1000)).startswith(OK)
            async with server.client() as new:
                new.send(LIVE)
                assert (await new.receive(1000)).startswith(OK)
                assert await resting.receive_all() == b""
            working.send(LIVE)
            assert (await working.receive(1000)).startswith(OK)

    asyncio.run(run())


@contextlib.asynccontextmanager
async def full_server() -> AsyncIterator[RunningApp]:
    """A server whose only connection has a request that is served."""
    app = BusyApp()
    async with serve(app, connections=1) as server, server.client() as working:
        working.send(OTHER)
        while not app.requests_started:
            await asyncio.sleep(0.01)
        yield server
        app.resume.set()
        assert (await working.receive(1000)).startswith(OK)


def test_if_all_connections_are_busy_others_may_only_send_health_checks() -> None:
    async def run() -> None:
        async with full_server() as server:
            async with server.client() as new:
                new.send(OTHER)
                received = await new.receive_all()
            assert received.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 1\r\n" in received
            assert b'"too_many_connections"' in received
            async with server.client() as new:
                new.send(LIVE)
                received = await new.receive_all()
            assert received.startswith(OK) and b"\r\nconnection: close\r\n" in received

    asyncio.run(run())


def test_connections_that_send_nothing_keep_no_health_check_out() -> None:
    async def run() -> None:
        async with full_server() as server, contextlib.AsyncExitStack() as stack:
            for _ in range(20):
                await stack.enter_async_context(server.client())
            async with server.client() as new:
                new.send(LIVE)
                assert (await new.receive_all()).startswith(OK)

    asyncio.run(run())


def test_a_health_check_needs_no_descriptor(minilm_folder: Path, tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server, connect(server) as client:
        [process] = server.children(HTTP_PROCESS)
        port = client.getsockname()[1]
        server.wait_until(lambda: has_connection(server, port))
        process.rlimit(psutil.RLIMIT_NOFILE, (0, 0))
        client.sendall(LIVE)
        assert read_response(client)[0] == 200


@pytest.mark.parametrize(
    ("head", "status", "word"),
    [
        (b"GET /live HTTP/1.1\r\n\r\n", 400, "Host"),
        (b"GET /live HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n", 400, "Host"),
        (b"GET /live HTTP/1.0\r\nhost: localhost\r\nhost: other\r\n\r\n", 400, "Host"),
        (b"POST /embed HTTP/1.0\r\nhost: localhost\r\n" + b"".join(CHUNKED), 400, "HTTP/1.0"),
        (b"GET /live HTTP/2.0\r\nhost: localhost\r\n\r\n", 505, "HTTP/1.1"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.1"),
    ],
)
def test_a_request_of_an_unknown_version_or_with_an_ambiguous_host_or_length_is_refused(
    server: Server, head: bytes, status: int, word: str
) -> None:
    with connect(server) as client:
        client.sendall(head)
        status_received, body = read_response(client)
    assert status_received == status and word in json.loads(body)["error"]


def test_an_http_1_0_request_needs_no_host(server: Server) -> None:
    with connect(server) as client:
        client.sendall(b"GET /live HTTP/1.0\r\n\r\n")
        assert read_response(client)[0] == 200
