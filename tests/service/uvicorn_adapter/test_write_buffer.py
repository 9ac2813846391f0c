"""What leaves together."""

import asyncio
import socket
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from service.http.timeouts import Timeouts
from service.uvicorn_adapter.write_buffer import ExpectContinue, UnreadResponse, WriteBuffer


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
        gathered = WriteBuffer(pipe, asyncio.get_running_loop(), pipe.close)
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
        gathered = WriteBuffer(pipe, asyncio.get_running_loop(), pipe.close)
        gathered.write(b"last")
        gathered.close()
        gathered.write(b"late")
        await asyncio.sleep(0)
        assert pipe.closed and pipe.sent == [b"last"]

    asyncio.run(run())


class Slow(asyncio.Transport):
    """The client reads so many bytes of what waits each time that it is asked how many do.

    The system holds none of them.
    """

    def __init__(self, waiting: int, reads: int) -> None:
        super().__init__({"socket": socket.socket()})
        self.waiting, self.reads, self.aborted = waiting, reads, asyncio.Event()

    def get_write_buffer_size(self) -> int:
        self.waiting = max(self.waiting - self.reads, 0)
        return self.waiting

    def abort(self) -> None:
        self.get_extra_info("socket").close()
        self.aborted.set()


def unread(pipe: Slow) -> int:
    """How many bytes of an answer are left when it is given up."""

    async def run() -> int:
        UnreadResponse(pipe, Timeouts(0.05)).begin()
        await asyncio.wait_for(pipe.aborted.wait(), 120)
        return pipe.waiting

    return asyncio.run(run())


def test_an_answer_of_which_nothing_is_read_in_time_is_given_up() -> None:
    assert unread(Slow(1000, reads=0)) == 1000


def test_an_answer_is_waited_for_anew_while_some_of_it_is_read() -> None:
    assert unread(Slow(1000, reads=100)) == 0


@pytest.mark.parametrize("waits", [True, False], ids=["not told to go on", "told to go on"])
@pytest.mark.parametrize("more", [True, False], ids=["more to come", "whole"])
def test_who_is_answered_without_being_told_to_send_its_body_is_not_heard_again(
    waits: bool, more: bool
) -> None:
    cycle: Any = SimpleNamespace(waiting_for_100_continue=waits, more_body=more, keep_alive=True)
    sent: list[tuple[Message, bool]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope == {"type": "http"} and await receive() == {}
        await send({"type": "http.response.start"})

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        sent.append((message, cycle.keep_alive))

    asyncio.run(ExpectContinue(app, cycle)({"type": "http"}, receive, send))
    assert sent == [({"type": "http.response.start"}, not (waits and more))]
