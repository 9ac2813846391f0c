"""Requests and responses as ASGI messages, over real sockets."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from embedwell.http.protocol.request_cycle import Header, RequestCycle
from tests.service.http.protocol.raw_http import LIVE
from tests.service.in_process_server import OK, HeldTimeouts, PausedApp, serve

START = {"type": "http.response.start", "status": 200, "headers": []}
LENGTH = {**START, "headers": [(b"content-length", b"5")]}
HELLO = {"type": "http.response.body", "body": b"hello"}
POST = b"POST /a HTTP/1.1\r\nhost: localhost\r\n"


def part(body: bytes) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": True}


class Script:
    """Receives the whole body of each request, then sends the messages of a script."""

    def __init__(self, *messages: Message) -> None:
        self._messages, self.scopes = messages, list[Scope]()
        self.received = list[Message]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        more = True
        while more:
            self.received.append(await receive())
            more = self.received[-1].get("more_body", False)
        for message in self._messages:
            await send({**message})


def exchange(app: Any, *requests: bytes) -> bytes:
    """All bytes that a client receives, which sends each request after a response to the last."""

    async def run() -> bytes:
        async with serve(app) as server, server.client() as client:
            received = b""
            for request in requests[:-1]:
                client.send(request)
                received += await client.receive(10_000)
            client.send(requests[-1])
            return received + await client.receive_all()

    return asyncio.run(run())


def request(method: bytes = b"GET", close: bool = False, version: bytes = b"1.1") -> bytes:
    ending = b"connection: close\r\n\r\n" if close else b"\r\n"
    return method + b" /a HTTP/" + version + b"\r\nhost: localhost\r\n" + ending


def bodies(received: bytes) -> list[bytes]:
    """What follows each head."""
    return [each.partition(b"\r\n\r\n")[2] for each in received.split(b"HTTP/1.1 ")[1:]]


def test_a_body_of_unknown_length_is_sent_in_chunks() -> None:
    app = Script(START, part(b"ab"), part(b""), part(b"c" * 17), {"type": "http.response.body"})
    received = exchange(app, request(), request(close=True))
    assert bodies(received) == [b"2\r\nab\r\n11\r\n" + b"c" * 17 + b"\r\n0\r\n\r\n"] * 2
    assert received.count(b"\r\ntransfer-encoding: chunked\r\n") == 2


def test_the_last_chunk_may_have_content() -> None:
    assert bodies(exchange(Script(START, HELLO), request(close=True))) == [
        b"5\r\nhello\r\n0\r\n\r\n"
    ]


def test_a_body_of_known_length_is_not_chunked() -> None:
    app = Script(LENGTH, part(b"he"), {"type": "http.response.body", "body": b"llo"})
    received = exchange(app, request(), request(close=True))
    assert bodies(received) == [b"hello"] * 2 and b"transfer-encoding" not in received


@pytest.mark.parametrize("start", [START, LENGTH])
def test_a_response_to_head_has_no_body(start: Message) -> None:
    received = exchange(Script(start, HELLO), request(b"HEAD"), request(b"HEAD", close=True))
    assert bodies(received) == [b"", b""] and b"transfer-encoding" not in received
    assert received.count(b"content-length: 5\r\n") == (2 if start is LENGTH else 0)


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_content_has_no_body(status: int) -> None:
    app = Script({**START, "status": status}, {"type": "http.response.body"})
    received = exchange(app, request(), request(close=True))
    assert received.count(b"HTTP/1.1 %d " % status) == 2
    assert bodies(received) == [b"", b""] and b"transfer-encoding" not in received


@pytest.mark.parametrize("start", [START, LENGTH])
@pytest.mark.parametrize("keep", [b"", b"connection: keep-alive\r\n"])
def test_a_response_in_http_1_0_ends_with_the_connection(start: Message, keep: bytes) -> None:
    sent = request(version=b"1.0")[:-2] + keep + b"\r\n"
    received = exchange(Script(start, part(b"he"), {**HELLO, "body": b"llo"}), sent)
    assert received.startswith(OK) and bodies(received) == [b"hello"]
    assert b"transfer-encoding" not in received and received.count(b"connection: close\r\n") == 1


def test_a_response_may_close_the_connection() -> None:
    start = {**LENGTH, "headers": [*LENGTH["headers"], (b"connection", b"Close")]}  # type: ignore[misc]
    received = exchange(Script(start, HELLO), request() + request())
    assert received.count(OK) == 1 and received.count(b"connection: ") == 1


@pytest.mark.parametrize(
    "script",
    [
        [],
        [START],
        [HELLO],
        [LENGTH, {**HELLO, "body": b"hello, world"}],
        [LENGTH, {**HELLO, "body": b"hell"}],
        [{**START, "headers": [(b"x-a", b"a\r\nx-b: b")]}],
        [{**START, "headers": [(b"x-a", b"a\nx-b: b")]}],
        [START, START],
    ],
)
def test_an_application_that_fails_before_a_byte_was_sent_causes_status_500(
    script: list[Message], caplog: pytest.LogCaptureFixture
) -> None:
    received = exchange(Script(*script), request(close=True))
    assert received.startswith(b"HTTP/1.1 500 ") and received.count(b"connection: close\r\n") == 1
    assert b"x-b" not in received and received.count(b"HTTP/1.1") == 1
    assert [record for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.parametrize("last", [[], [{**HELLO, "body": b"o" * 9}], [START]])
def test_an_application_that_fails_amid_a_response_closes_the_connection(
    last: list[Message],
) -> None:
    received = exchange(Script(LENGTH, part(b"hell"), *last), request() + request())
    assert bodies(received) == [b"hell"]


def test_messages_after_a_response_are_refused_without_an_effect() -> None:
    received = exchange(Script(LENGTH, HELLO, HELLO), request(), request(close=True))
    assert bodies(received) == [b"hello", b"hello"]


def test_a_body_is_received_in_order_and_then_the_end_of_the_connection() -> None:
    async def run() -> None:
        ended = asyncio.Event()
        app = Script(START, part(b"a"))

        async def awaiting(scope: Scope, receive: Receive, send: Send) -> None:
            await app(scope, receive, send)
            app.received.append(await receive())
            ended.set()

        async with serve(awaiting) as server:
            async with server.client() as client:
                client.send(POST + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
                await asyncio.sleep(0.05)
                client.send(b"2\r\nde\r\n0\r\n\r\n")
                assert await client.receive(1000)
                assert not ended.is_set()
            await asyncio.wait_for(ended.wait(), 60)
        body = b"".join(message.get("body", b"") for message in app.received)
        assert body == b"abcde" and app.received[-1] == {"type": "http.disconnect"}

    asyncio.run(run())


def test_after_the_response_the_application_receives_the_end() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in (LENGTH, HELLO):
            await send({**message})
        messages.append(await asyncio.wait_for(receive(), 60))

    messages: list[Message] = []
    exchange(app, request(close=True))
    assert messages == [{"type": "http.disconnect"}]


def test_100_continue_is_sent_only_while_the_body_is_awaited() -> None:
    head = POST + b"expect: 100-continue\r\nconnection: close\r\ncontent-length: 2\r\n\r\n"
    assert b"100 Continue" not in exchange(Script(LENGTH, HELLO), head + b"ab")
    received = exchange(Script(LENGTH, HELLO), head, b"ab")
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert received.count(b"HTTP/1.1 100") == 1


def test_100_continue_is_sent_once_for_a_body_in_parts() -> None:
    async def run() -> None:
        async with serve(Script(LENGTH, HELLO)) as server, server.client() as client:
            client.send(POST + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n")
            assert await client.receive(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(b"a")
            await asyncio.sleep(0.1)
            client.send(b"b")
            assert (await client.receive(1000)).startswith(OK)

    asyncio.run(run())


def test_http_1_0_knows_no_100_continue() -> None:
    async def run() -> None:
        async with serve(Script(LENGTH, HELLO)) as server, server.client() as client:
            client.send(b"POST /a HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
            await asyncio.sleep(0.1)
            client.send(b"ab")
            assert (await client.receive_all()).startswith(OK)

    asyncio.run(run())


def test_the_scope_describes_the_request_and_the_connection() -> None:
    app = Script(LENGTH, HELLO)
    exchange(app, b"GET /a%20b?c=%20 HTTP/1.1\r\nHost: localhost\r\nconnection: close\r\n\r\n")
    [scope] = app.scopes
    assert scope["server"][0] == scope["client"][0] == "127.0.0.1"
    expected = {
        **{"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http"},
        **{"path": "/a b", "raw_path": b"/a%20b", "query_string": b"c=%20", "root_path": ""},
        "headers": [(b"host", b"localhost"), (b"connection", b"close")],
    }
    assert expected.items() <= scope.items() and scope["asgi"]["version"] == "3.0"


def test_an_idle_connection_is_closed_but_no_busy_one() -> None:
    async def run() -> None:
        app, idle = PausedApp(), HeldTimeouts()
        app.resume.set()
        async with serve(app, idle=idle) as server, server.client() as client:
            client.send(LIVE)
            assert (await client.receive(1000)).startswith(OK)
            app.resume.clear()
            client.send(LIVE)
            while app.requests_started < 2:
                await asyncio.sleep(0.01)
            idle.expire_all()
            app.resume.set()
            assert (await client.receive(1000)).startswith(OK)
            idle.expire_all()
            assert await client.receive_all() == b""

    asyncio.run(run())


def test_a_head_that_began_before_the_last_response_has_its_time_limit() -> None:
    async def run() -> None:
        app, timeouts = PausedApp(), HeldTimeouts()
        async with serve(app, timeouts) as server, server.client() as client:
            client.send(LIVE + LIVE[:-2])
            while not (
                app.requests_started and any(map(has_partial_head, server.state.connections))
            ):
                await asyncio.sleep(0.01)
            timeouts.expire_all()
            app.resume.set()
            assert (await client.receive(1000)).startswith(OK)
            timeouts.expire_all()
            received = await client.receive_all()
            assert received.startswith(b"HTTP/1.1 408 ")

    asyncio.run(run())


def has_partial_head(connection: Any) -> bool:
    incomplete: bool = connection._parser.is_incomplete
    return incomplete


def test_a_shutdown_awaits_the_response_and_closes_idle_connections() -> None:
    async def run() -> None:
        app = PausedApp()
        async with serve(app) as server, server.client() as busy, server.client() as idle:
            busy.send(LIVE)
            idle.send(LIVE[:-2])
            connections = server.state.connections
            while not (app.requests_started and any(map(has_partial_head, connections))):
                await asyncio.sleep(0.01)
            for connection in list(connections):
                connection.shutdown()
            assert await idle.receive_all() == b""
            app.resume.set()
            received = await busy.receive_all()
            assert received.startswith(OK) and b"\r\nconnection: close\r\n" in received
            while connections or server.state.tasks:
                await asyncio.sleep(0.01)
            assert server.state.total_requests == 1

    asyncio.run(run())


def test_every_response_is_logged_at_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "embedwell.access"):
        exchange(Script(LENGTH, HELLO), request(close=True).replace(b"/a", b"/a%0Ab?c=1"))
    [record] = [each for each in caplog.records if each.name == "embedwell.access"]
    assert record.getMessage().endswith('"GET /a%0Ab?c=1 HTTP/1.1" 200')


class Recorder:
    """A connection that records what is written."""

    write_paused = is_closing = False
    default_headers: Iterable[Header] = [(b"date", b"today")]

    def __init__(self) -> None:
        self.written = list[bytes]()

    def write(self, parts: list[bytes]) -> None:
        self.written.append(b"".join(parts))

    async def drain(self) -> None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError

    def continue_reading(self) -> None:
        raise AssertionError

    def end_response(self) -> None:
        self.written.append(b"end")


def test_a_response_in_one_message_takes_one_write() -> None:
    recorder: Any = Recorder()
    scope = {"method": "GET", "http_version": "1.1"}
    cycle = RequestCycle(recorder, scope, keep_alive=True, expects_continue=False)
    cycle.end_body()
    asyncio.run(cycle.run(Script(LENGTH, HELLO)))
    head = b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 5\r\n\r\n"
    assert recorder.written == [head + b"hello", b"end"]
    cycle.add_body(b"late")
    assert not cycle.body, "the rest of a body is not stored after the response"
