"""Answers as they go: together, and not for ever to a client that does not read."""

import asyncio
import fcntl
import sys
import termios
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.http.timeouts import Timeouts


class Asked:
    """An application whose client has asked whether to send its body.

    Where the answer comes without that, nobody knows whether the body does, and the connection
    ends: https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
    """

    def __init__(self, app: ASGIApp, cycle: RequestResponseCycle) -> None:
        self._app, self._cycle = app, cycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cycle = self._cycle

        async def closing(message: Message) -> None:
            if cycle.waiting_for_100_continue and cycle.more_body:
                cycle.keep_alive = False
            await send(message)

        await self._app(scope, receive, closing)


class Unread:
    """What is left of an answer that a client does not read as fast as it is sent."""

    def __init__(self, transport: asyncio.Transport, patience: Timeouts) -> None:
        self._transport, self._patience, self._left = transport, patience, 0

    def begin(self) -> None:
        """Wait until something of it is read."""
        self._left = self._size()
        self._patience.begin(self)

    def expire(self) -> None:
        """End the connection, unless some was read in the meantime."""
        if self._size() < self._left:
            self.begin()
        else:
            self._transport.abort()

    def _size(self) -> int:
        # The system asks for more of the buffer only when much of what it holds itself is read.
        sent = self._transport.get_extra_info("socket")
        return self._transport.get_write_buffer_size() + _held(sent.fileno())


def _held(socket: int) -> int:
    """Bytes that the system holds and the other end has not taken; 0 where that is not told."""
    try:
        told = fcntl.ioctl(socket, termios.TIOCOUTQ, bytes(4))  # Linux's SIOCOUTQ: man 7 tcp
    except OSError:
        return 0
    return int.from_bytes(told, sys.byteorder)


class WriteBuffer:
    """A transport that sends together what is written in one turn of the event loop."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        end: Callable[[], None],
    ) -> None:
        """end: closes the connection, when everything is written."""
        self._transport, self._loop, self._end = transport, loop, end
        self._held: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)

    def close(self) -> None:
        self._flush()
        self.is_closing = lambda: True
        self._end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        held, self._held = self._held, []
        if held and not self.is_closing():
            self._transport.writelines(held)
