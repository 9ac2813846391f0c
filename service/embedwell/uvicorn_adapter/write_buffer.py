"""Write responses with few system calls, and detect clients that do not read."""

import asyncio
import fcntl
import sys
import termios
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from embedwell.http.timeouts import Timeouts


class ExpectContinue:
    """ASGI application that serves requests with `Expect: 100-continue`.

    After a response without status 100 the client may or may not send the body, so the connection
    is closed: https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
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


class UnreadResponse:
    """The part of a response that the client has not read."""

    def __init__(self, transport: asyncio.Transport, timeouts: Timeouts) -> None:
        self._transport, self._timeouts, self._last_size = transport, timeouts, 0

    def begin(self) -> None:
        """Start the time limit for reading some of the response."""
        self._last_size = self._size()
        self._timeouts.begin(self)

    def expire(self) -> None:
        """Close the connection, unless some of the response was read in the meantime."""
        if self._size() < self._last_size:
            self.begin()
        else:
            self._transport.abort()

    def _size(self) -> int:
        # The kernel buffers some of it, and accepts more only when much of that is read.
        socket = self._transport.get_extra_info("socket")
        return self._transport.get_write_buffer_size() + _unread_bytes(socket.fileno())


def _unread_bytes(socket: int) -> int:
    """Return the bytes that the kernel buffers for the other end; 0 if that is unknown."""
    try:
        size = fcntl.ioctl(socket, termios.TIOCOUTQ, bytes(4))  # Linux's SIOCOUTQ: man 7 tcp
    except OSError:
        return 0
    return int.from_bytes(size, sys.byteorder)


class WriteBuffer:
    """A transport that sends all writes of one iteration of the event loop together."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        close: Callable[[], None],
    ) -> None:
        """close: closes the connection once everything is written."""
        self._transport, self._loop, self._close = transport, loop, close
        self._pending: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(data)

    def close(self) -> None:
        self._flush()
        self.is_closing = lambda: True
        self._close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if pending and not self.is_closing():
            self._transport.writelines(pending)
