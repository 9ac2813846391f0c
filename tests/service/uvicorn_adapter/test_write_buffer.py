"""Coalesced writes, unread responses and `Expect: 100-continue`."""

import asyncio
import socket
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from embedwell.http.timeouts import Timeouts
from embedwell.uvicorn_adapter.write_buffer import ExpectContinue, UnreadResponse, WriteBuffer


class RecordingTransport(asyncio.Transport):
    """Records the bytes of each send."""

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


def test_writes_of_one_loop_iteration_are_sent_together() -> None:
    async def run() -> None:
        transport = RecordingTransport()
        buffer = WriteBuffer(transport, asyncio.get_running_loop(), transport.close)
        buffer.write(b"head ")
        buffer.write(b"body")
        assert transport.sent == []
        await asyncio.sleep(0)
        buffer.write(b"more")
        await asyncio.sleep(0)
        assert transport.sent == [b"head body", b"more"]

    asyncio.run(run())


def test_closing_sends_the_buffer_and_nothing_after() -> None:
    async def run() -> None:
        transport = RecordingTransport()
        buffer = WriteBuffer(transport, asyncio.get_running_loop(), transport.close)
        buffer.write(b"last")
        buffer.close()
        buffer.write(b"late")
        await asyncio.sleep(0)
        assert transport.closed and transport.sent == [b"last"]

    asyncio.run(run())


class SlowTransport(asyncio.Transport):
    """A write buffer of which the client reads some bytes whenever its size is read.

    The kernel buffers nothing.
    """

    def __init__(self, unread: int, reads: int) -> None:
        super().__init__({"socket": socket.socket()})
        self.unread, self.reads, self.aborted = unread, reads, asyncio.Event()

    def get_write_buffer_size(self) -> int:
        self.unread = max(self.unread - self.reads, 0)
        return self.unread

    def abort(self) -> None:
        self.get_extra_info("socket").close()
        self.aborted.set()


def bytes_unread_at_abort(transport: SlowTransport) -> int:
    """The number of unread bytes of a response when it is aborted."""

    async def run() -> int:
        UnreadResponse(transport, Timeouts(0.05)).begin()
        await asyncio.wait_for(transport.aborted.wait(), 120)
        return transport.unread

    return asyncio.run(run())


def test_a_response_of_which_nothing_is_read_in_time_is_aborted() -> None:
    assert bytes_unread_at_abort(SlowTransport(1000, reads=0)) == 1000


def test_reading_part_of_a_response_restarts_the_timeout() -> None:
    assert bytes_unread_at_abort(SlowTransport(1000, reads=100)) == 0


@pytest.mark.parametrize("waiting", [True, False], ids=["without 100", "after 100"])
@pytest.mark.parametrize("more_body", [True, False], ids=["partial body", "complete body"])
def test_a_response_before_100_continue_closes_the_connection(
    waiting: bool, more_body: bool
) -> None:
    cycle: Any = SimpleNamespace(
        waiting_for_100_continue=waiting, more_body=more_body, keep_alive=True
    )
    sent: list[tuple[Message, bool]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope == {"type": "http"} and await receive() == {}
        await send({"type": "http.response.start"})

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        sent.append((message, cycle.keep_alive))

    asyncio.run(ExpectContinue(app, cycle)({"type": "http"}, receive, send))
    assert sent == [({"type": "http.response.start"}, not (waiting and more_body))]
