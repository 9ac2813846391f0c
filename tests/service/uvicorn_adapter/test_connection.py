"""Connections: what is read of them, in which order it is answered, and what is not waited for."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from service.uvicorn_adapter.connection import Connection
from tests.service.host import OK, Held, host
from tests.service.server import Server
from tests.service.uvicorn_adapter.raw_http import (
    CHUNKED,
    LIVE,
    REST,
    SIZED,
    answer,
    place,
    raw,
    told,
    until_closed,
)


def test_a_client_that_asks_first_is_told_to_go_on(server: Server) -> None:
    body = json.dumps({"inputs": "a"}).encode()
    head = f"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    with raw(server) as client:
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
def test_a_client_that_asks_first_and_is_refused_is_told_that_the_connection_ends(
    server: Server, line: bytes, status: bytes
) -> None:
    length = b"" if b"length" in line else b"content-length: 22\r\n"
    with raw(server) as client:
        client.sendall(line + b"\r\nexpect: 100-continue\r\n" + length + b"\r\n")
        found = until_closed(client, [])
    assert found.startswith(b"HTTP/1.1 " + status)
    assert found.count(b"HTTP/1.1") == found.count(b"\r\nconnection: close\r\n") == 1


def test_a_client_that_asks_and_sends_at_once_keeps_its_connection(server: Server) -> None:
    head = POST + b"content-type: text/xml\r\nexpect: 100-continue\r\n"
    with raw(server) as client:
        client.sendall(head + b"".join(SIZED))
        assert answer(client)[0] == 415
        client.sendall(LIVE)
        assert answer(client)[0] == 200


def test_requests_sent_in_a_row_are_answered_in_order(server: Server) -> None:
    names = [f"number-{index}" for index in range(5)]
    with raw(server) as client:
        client.sendall(
            b"".join(
                f"GET /live HTTP/1.1\r\nhost: localhost\r\nx-request-id: {n}\r\n\r\n".encode()
                for n in names
            )
        )
        found = b""
        while found.count(b'{"status":"live"}') < len(names):
            found += client.recv(10_000)
    places = [found.index(name.encode()) for name in names]
    assert places == sorted(places)


POST = b"POST /embed HTTP/1.1\r\nhost: localhost\r\n"
H2C = b"connection: upgrade\r\nupgrade: h2c\r\n"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short timeouts."""
    with Server(tmp_path_factory.mktemp("hasty") / "log", receive_timeout=0.5) as running:
        yield running


@pytest.mark.parametrize("before", [b"", LIVE, LIVE + LIVE])
@pytest.mark.full
def test_headers_that_trickle_are_given_up_in_the_one_shape(hasty: Server, before: bytes) -> None:
    head = b"POST /embed HTTP/1.1\r\nx-request-id: slow\r\nhost: localhost\r\nx-a: " + b"a" * 1000
    with raw(hasty) as client:
        client.sendall(before)
        found = until_closed(client, (head[i : i + 5] for i in range(0, len(head), 5)))
    assert found.count(b"HTTP/1.1 200 ") == before.count(LIVE)
    error = told(found[found.index(b"HTTP/1.1 408 ") :], 408)
    assert error["code"] == "receive_timeout" and error["request_id"] == "slow"


@pytest.mark.full
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
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\n\r\n"
    with raw(hasty) as client:
        found = until_closed(client, [head, *[b" " * 20_000] * 1000])
    assert found.startswith(b"HTTP/1.1 413 ") and found.count(b"HTTP/1.1") == 1


def test_an_answer_under_way_is_not_cut_by_the_next_request_that_trickles(hasty: Server) -> None:
    body = json.dumps({"inputs": ["word " * 250] * 30}).encode()
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    with raw(hasty) as client:
        client.sendall(head + body + b"GET /live?")
        found = until_closed(client, [b"a"] * 1000)
    assert found.startswith(b"HTTP/1.1 200 ") and found.count(b"\r\n\r\n[[") == 1, found[:300]


MB = 1 << 20
REFUSED_AMID = {
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


@pytest.mark.parametrize("case", REFUSED_AMID)
def test_a_client_that_is_refused_while_it_sends_can_send_all_and_read_the_response(
    server: Server, case: str
) -> None:
    head, status = REFUSED_AMID[case]
    with raw(server) as client:
        client.sendall(head % b"content-length: %d\r\n" % (20 * MB))
        for _ in range(20):
            client.sendall(b" " * MB)
        assert answer(client)[0] == status


def test_a_client_that_goes_on_sending_for_ever_is_cut_off(hasty: Server) -> None:
    with raw(hasty) as client:
        client.sendall(b"PRONTO / HTTP/1.1\r\nhost: localhost\r\n")
        with pytest.raises(ConnectionError):
            while True:
                client.sendall(b" " * MB)


def test_a_server_stops_without_waiting_for_a_client_that_goes_on_sending() -> None:
    async def run() -> None:
        async with host(Held(), timeouts=60) as there, there.client() as client:
            client.send(b"PRONTO / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert (await client.some(100)).startswith(b"HTTP/1.1 400 ")
            (connection,) = there.state.connections
            assert isinstance(connection, Connection)
            connection.shutdown()
            while there.state.connections:
                await asyncio.sleep(0.01)

    asyncio.run(run())


def connections(server: Server) -> list[Any]:
    """The connections of all processes of a server."""
    first = psutil.Process(server.process.pid)
    processes = [first, *first.children(recursive=True)]
    return [each for process in processes for each in process.net_connections()]


def ask_much(server: Server) -> socket.socket:
    """A client that has asked for some 13 MB, and has room for little."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.connect(place(server))
    client.settimeout(20)
    client.sendall(
        b"GET /positions?scheme=sinusoidal&count=3000&dim=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    )
    return client


def test_an_answer_that_is_not_read_is_given_up(hasty: Server) -> None:
    with ask_much(hasty) as client:
        port = client.getsockname()[1]
        while any(port in (each.raddr or ()) for each in connections(hasty)):
            time.sleep(0.05)
        found = b"".join(iter(lambda: client.recv(1 << 20), b""))
    head, _, body = found.partition(b"\r\n\r\n")
    assert b"content-length: " in head and len(body) < 10_000_000, "only what was under way"


def test_the_little_that_is_left_of_an_answer_is_given_up() -> None:
    async def run() -> None:
        app = Held(times=30_000)
        app.let.set()
        async with host(app, timeouts=0.3) as there, there.client() as client:
            client.send(b"GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await asyncio.sleep(0.1)
            (connection,) = there.state.connections
            assert 0 < connection.transport.get_write_buffer_size() < 1 << 16
            await none_left(there.state.connections)

    asyncio.run(run())


async def none_left(connections: set[Any]) -> None:
    """Wait until a server has no connection; fails after two minutes."""
    async with asyncio.timeout(120):
        while connections:
            await asyncio.sleep(0.01)


@pytest.mark.full
def test_an_answer_that_is_read_slowly_comes_whole(hasty: Server) -> None:
    with ask_much(hasty) as client:
        head, _, body = client.recv(1000).partition(b"\r\n\r\n")
        pauses = [0.1] * 12  # together twice as long as it may rest
        size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < size and (part := client.recv(1 << 20)):
            body += part
            time.sleep(pauses.pop() if pauses else 0)
    assert len(body) == size and not pauses


@pytest.mark.full
def test_a_client_that_reads_a_little_at_a_time_is_one_that_reads() -> None:
    async def run() -> None:
        app = Held(times=500_000)
        async with host(app, timeouts=0.6) as there, there.client() as client:
            client.send(b"GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n")
            while not app.begun:
                await asyncio.sleep(0.01)
            (connection,) = there.state.connections
            # The system takes so much at a time of which the client has read nothing.
            sending = connection.transport.get_extra_info("socket")
            sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
            app.let.set()
            for _ in range(60):
                await client.some(3000)
                await asyncio.sleep(0.05)
            assert there.state.connections, "cut off"
            await none_left(there.state.connections)  # it has stopped reading

    asyncio.run(run())


@pytest.mark.parametrize("head", [b"x-a: " + b"a" * 99_999, b"x-a: a\r\n" * 9999])
def test_headers_without_end_are_refused(server: Server, head: bytes) -> None:
    with raw(server) as client:
        client.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\n" + head)
        error = told(until_closed(client, []), 431)
    assert error["code"] == "head_too_large"


@pytest.mark.parametrize("url", [b"/" + b"a" * (size - 1) for size in (65_536, 70_000)])
def test_a_url_that_is_too_long_is_told_the_limit(server: Server, url: bytes) -> None:
    with raw(server) as client:
        client.sendall(b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % url)
        error = told(until_closed(client, []), 431)
    assert error["code"] == "head_too_large" and "65536 bytes" in error["error"]


def test_a_url_of_as_many_bytes_as_are_read_is_answered(server: Server) -> None:
    with raw(server) as client:
        client.sendall(b"GET /live?" + b"a" * 65_380 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert answer(client)[0] == 200


def test_the_headers_of_one_request_are_not_added_to_those_of_another(server: Server) -> None:
    with raw(server) as client:
        for _ in range(3):
            client.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\nx-a: " + b"a" * 30_000)
            time.sleep(0.05)
            client.sendall(b"\r\n\r\n")
            assert client.recv(10_000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("what", [b"\x16\x03\x01\x02\x00\x01\x00", b"HELLO\r\n\r\n"])
def test_what_is_no_http_is_told_so_in_the_one_shape(server: Server, what: bytes) -> None:
    with raw(server) as client:
        client.sendall(what)
        error = told(until_closed(client, []), 400)
    assert error["code"] == "invalid_request" and "HTTP" in error["error"]


@pytest.mark.parametrize("what", [b"GET / SMTP/9\r\n\r\n", b"X-Long: " + b"x" * 70_000])
def test_what_is_no_http_behind_a_request_leaves_its_answer_alone(
    server: Server, what: bytes
) -> None:
    body = json.dumps({"inputs": ["a text of some words"] * 200}).encode()
    with raw(server) as client:
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s"
            % (len(body), body)
        )
        time.sleep(0.01)
        client.sendall(what)
        found = until_closed(client, [])
    assert found.startswith(b"HTTP/1.1 200 ") and found.count(b"HTTP/1.1 ") == 1
    head, _, rest = found.partition(b"\r\n\r\n")
    assert b"\nconnection: close" in head and len(json.loads(rest)) == 200


@pytest.mark.parametrize("cut", [0, 60, 105])
def test_a_trailer_is_no_header(server: Server, cut: int) -> None:
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\nx-request-id: mine\r\n" + b"".join(CHUNKED)
    trailer = b"x-request-id: other\r\ncontent-encoding: gzip\r\nexpect: 100-continue\r\n"
    whole = head + REST[:-2] + trailer + b"\r\n" + LIVE
    with raw(server) as client:
        client.sendall(whole[:cut])
        time.sleep(0.01)
        client.sendall(whole[cut:])
        found = b""
        while not found.endswith(b'{"status":"live"}'):
            found += client.recv(100_000)
    assert found.startswith(b"HTTP/1.1 200 ") and b"x-request-id: mine\r\n" in found
    assert b"x-request-id: other" not in found


def test_a_trailer_does_not_name_what_is_refused_behind_it(server: Server) -> None:
    with raw(server) as client:
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\n" + b"".join(CHUNKED) + REST[:-2]
        )
        client.sendall(b"x-request-id: other\r\n\r\n")
        assert answer(client)[0] == 200
        client.sendall(b"\r\n" * 40_000)
        assert told(until_closed(client, []), 431)["request_id"] != "other"


def test_who_is_refused_for_a_head_that_came_whole_is_named(server: Server) -> None:
    with raw(server) as client:
        client.sendall(b"GET http://x HTTP/1.1\r\nhost: localhost\r\nx-request-id: mine\r\n\r\n")
        assert told(until_closed(client, []), 400)["request_id"] == "mine"


ENDLESS = [b"x-a: " + b"a" * 99_999, b"x-a: a\r\n" * 12_000]


@pytest.mark.parametrize("rest", [*(b"0\r\n" + line for line in ENDLESS), b"5;" + b"a" * 99_999])
def test_trailers_and_chunk_extensions_without_end_are_refused(server: Server, rest: bytes) -> None:
    with raw(server) as client:
        client.sendall(b"POST /embed HTTP/1.1\r\nhost: localhost\r\n" + b"".join(CHUNKED) + rest)
        error = told(until_closed(client, []), 431)
    assert error["code"] == "head_too_large"


def test_trailers_without_end_of_a_request_that_is_answered_end_the_connection(
    server: Server,
) -> None:
    with raw(server) as client:
        client.sendall(b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\n" + b"".join(CHUNKED))
        assert answer(client)[0] == 404
        client.sendall(REST[:-2] + ENDLESS[0])
        assert until_closed(client, []) == b""


@pytest.mark.parametrize("rest", [b"zz\r\n", b"5\r\nhelloXX", b"0\r\nno trailer\r\n\r\n"])
@pytest.mark.parametrize("pause", [0, 0.02])
def test_a_body_that_cannot_be_read_is_told_at_once(
    server: Server, rest: bytes, pause: float
) -> None:
    with raw(server) as client:
        client.sendall(LIVE)
        answer(client)
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\nx-request-id: b\r\n" + b"".join(CHUNKED)
        )
        time.sleep(pause)
        client.sendall(rest)
        error = told(until_closed(client, []), 400)
    assert error["code"] == "invalid_request" and error["request_id"] == "b"


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"gzip\r\ntransfer-encoding: chunked"])
def test_a_coding_that_is_not_read_is_refused(server: Server, coding: bytes) -> None:
    with raw(server) as client:
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: %s\r\n\r\n" % coding
        )
        client.sendall(CHUNKED[1] + REST)
        status, body = answer(client)
        assert (status, json.loads(body)["code"]) == (501, "unsupported_coding")
        client.sendall(LIVE)
        assert answer(client)[0] == 200


def test_the_name_of_a_coding_may_be_in_any_case(server: Server) -> None:
    with raw(server) as client:
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: Chunked\r\n\r\n"
        )
        client.sendall(CHUNKED[1] + REST)
        assert answer(client)[0] == 200


def test_a_coding_that_has_no_end_is_told_at_once(server: Server) -> None:
    with raw(server) as client:
        client.sendall(
            b"POST /embed HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: identity\r\n\r\n"
        )
        told(until_closed(client, []), 400)


@pytest.mark.parametrize("line", ENDLESS)
def test_headers_without_end_behind_a_request_are_read_no_further(line: bytes) -> None:
    async def run() -> None:
        app = Held()
        async with host(app) as there, there.client() as client:
            client.send(b"GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n" + LIVE[:-2])
            for _ in range(10):
                client.send(line)
                await asyncio.sleep(0.01)
            client.send(b"\r\n" + LIVE)
            await asyncio.sleep(0.05)
            app.let.set()
            found = await client.rest()
            assert found.startswith(OK) and found.count(OK) == 1 and app.begun == 1
            assert b"\r\nconnection: close\r\n" in found

    asyncio.run(run())


BROKEN = [
    b"junk junk\r\n\r\n",
    b"POST /c HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"POST /c HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: identity\r\n\r\n",
    POST + H2C + b"transfer-encoding: a\r\n\r\n",
]


@pytest.mark.parametrize("junk", BROKEN)
@pytest.mark.parametrize("pause", [0, 0.02])
def test_requests_before_one_that_cannot_be_read_are_answered_and_the_connection_ends(
    junk: bytes, pause: float, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        app = Held()
        async with host(app, timeouts=0.2) as there, there.client() as client:
            client.send(LIVE + b"GET /b HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await asyncio.sleep(pause)
            client.send(junk)
            for _ in range(5):
                await asyncio.sleep(0.1)
                client.send(b"more\r\n")
            app.let.set()
            found = await client.rest()
            assert found.count(b"HTTP/1.1 ") == found.count(OK) == 2
            assert found.endswith(b"/b") and found.count(b"connection: close") == 1

    asyncio.run(run())
    assert caplog.text.count("no HTTP request") == 1


def test_the_rest_of_a_body_that_cannot_be_read_ends_the_connection_of_a_request_that_is_answered(
    server: Server,
) -> None:
    with raw(server) as client:
        client.sendall(b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\n" + b"".join(CHUNKED))
        assert answer(client)[0] == 404
        client.sendall(b"junk")
        assert until_closed(client, []) == b""


@pytest.mark.parametrize("begun", [b"", b"{", b"{" + b" " * 50_000])
def test_who_leaves_with_a_request_half_sent_leaves_no_work_behind(begun: bytes) -> None:
    async def run() -> None:
        app = Held()
        async with host(app) as there:
            async with there.client() as client:
                client.send(
                    b"POST /a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n"
                    + b" " * 100_000
                )
                client.send(
                    b"POST /b HTTP/1.1\r\nhost: localhost\r\ncontent-length: 60000\r\n\r\n" + begun
                )
                await asyncio.sleep(0.1)
                assert app.begun == 1 and there.state.tasks
            await asyncio.sleep(0.1)
            assert not there.state.tasks and not there.state.connections

    asyncio.run(run())


def test_no_more_is_read_than_can_be_kept() -> None:
    async def run() -> None:
        app = Held()
        async with host(app) as there, there.client() as client:
            client.send(
                LIVE + b"POST /b HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900000\r\n\r\n"
            )
            for _ in range(9):
                client.send(b" " * 100_000)
                await asyncio.sleep(0.02)
            (connection,) = there.state.connections
            assert isinstance(connection, Connection)
            assert connection.flow.read_paused and len(connection.cycle.body) < 400_000
            app.let.set()
            client.send(b"GET /c HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert (await client.rest()).count(OK) == 3

    asyncio.run(run())


def test_no_more_than_some_pipelined_requests_are_read_ahead() -> None:
    async def run() -> None:
        app = Held()
        async with host(app) as there, there.client() as client:
            client.send(LIVE * 5000)  # a read brings some thousands of them
            while not app.begun:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            (connection,) = there.state.connections
            assert isinstance(connection, Connection)
            assert connection.flow.read_paused and len(connection.pipeline) < 250
            app.let.set()
            client.send(b"GET /c HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert (await client.rest()).count(OK) == 5001

    asyncio.run(run())


@pytest.mark.parametrize(
    ("sent", "status"),
    [(b"junk junk\r\n\r\n", 400), (LIVE[:-2], 408), (LIVE[:-2] + ENDLESS[0], 431)],
)
def test_what_a_connection_refuses_is_counted(sent: bytes, status: int) -> None:
    async def run() -> None:
        async with host(Held(), timeouts=0.2) as there, there.client() as client:
            client.send(sent)
            assert (await client.rest()).startswith(b"HTTP/1.1 %d " % status)
            line = f'embedding_requests_total{{path="other",status="{status}"}} 1.0'
            assert line in there.metrics.text().decode()

    asyncio.run(run())


def test_none_of_it_is_an_unexpected_error(hasty: Server) -> None:
    assert "Traceback" not in hasty.log


@pytest.mark.parametrize(
    "begun",
    [b"", b"\r\n", LIVE[:-2], b"POST /a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\na"],
)
def test_beyond_the_limit_a_connection_that_waits_for_its_client_is_closed(begun: bytes) -> None:
    async def run() -> None:
        app = Held()
        app.let.set()
        async with (
            host(app, connections=2) as there,
            there.client() as resting,
            there.client() as slow,
        ):
            resting.send(LIVE)
            assert await resting.some(1000)
            slow.send(begun)
            await asyncio.sleep(0.1)
            async with there.client() as new:
                new.send(LIVE)
                assert (await new.some(1000)).startswith(OK)
                with contextlib.suppress(ConnectionResetError):
                    assert await slow.rest() == b""
            resting.send(LIVE)
            assert (await resting.some(1000)).startswith(OK)

    asyncio.run(run())


def test_beyond_the_limit_a_connection_is_told_to_come_again_where_all_others_work() -> None:
    async def run() -> None:
        app = Held()
        async with host(app, connections=1) as there, there.client() as working:
            working.send(LIVE)
            while not app.begun:
                await asyncio.sleep(0.01)
            async with there.client() as new:
                new.send(LIVE)
                found = await new.rest()
            assert found.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 1\r\n" in found
            assert b'"too_many_connections"' in found
            app.let.set()
            assert (await working.some(1000)).startswith(OK)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("head", "status", "word"),
    [
        (b"GET /live HTTP/1.1\r\n\r\n", 400, "Host"),
        (b"GET /live HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n", 400, "Host"),
        (b"GET /live HTTP/1.0\r\nhost: localhost\r\nhost: other\r\n\r\n", 400, "Host"),
        (b"POST /embed HTTP/1.0\r\nhost: localhost\r\n" + b"".join(CHUNKED), 400, "HTTP/1.0"),
    ],
)
def test_a_request_whose_host_or_end_others_may_see_elsewhere_is_refused(
    server: Server, head: bytes, status: int, word: str
) -> None:
    with raw(server) as client:
        client.sendall(head)
        found, body = answer(client)
    assert found == status and word in json.loads(body)["error"]


def test_a_request_of_http_1_0_needs_no_host(server: Server) -> None:
    with raw(server) as client:
        client.sendall(b"GET /live HTTP/1.0\r\n\r\n")
        assert answer(client)[0] == 200
