"""Limits for clients that do not read a response, or do not stop sending after it."""

import asyncio

from embedwell.http.protocol.kernel_socket import unsent_bytes
from embedwell.http.timeouts import Timeouts

_MAX_DROPPED = 64 << 20  # bytes


class UnreadResponse:
    """The part of a response that the client has not read."""

    def __init__(self, transport: asyncio.Transport, timeouts: Timeouts) -> None:
        self._transport, self._timeouts, self._last_size = transport, timeouts, 0

    def begin(self) -> None:
        """Start the time limit for reading some of the response."""
        self._last_size = self._size()
        self._timeouts.begin(self)

    def end(self) -> None:
        """Record that the client has read all, or is gone."""
        self._timeouts.end(self)

    def expire(self) -> None:
        """Close the connection, unless some of the response was read in the meantime."""
        if self._size() < self._last_size:
            self.begin()
        else:
            self._transport.abort()

    def _size(self) -> int:
        # The kernel buffers some of it, and accepts more only when much of that is read.
        return self._transport.get_write_buffer_size() + unsent_bytes(self._transport)


class HalfClosed:
    """Half-closes a connection, and drops incoming bytes up to limits of time and size.

    After a full close, the system responds to incoming bytes with a reset. Clients and gateways
    then lose the response that they have not read yet:
    https://www.rfc-editor.org/rfc/rfc9112#section-9.6
    """

    def __init__(self, transport: asyncio.Transport, timeouts: Timeouts) -> None:
        self._transport, self._timeouts, self._remaining = transport, timeouts, _MAX_DROPPED
        transport.write_eof()
        timeouts.begin(self)

    def drop(self, data: bytes) -> None:
        """Drop incoming bytes."""
        self._remaining -= len(data)
        if self._remaining < 0:
            self._transport.abort()

    def expire(self) -> None:
        """Close the connection, unless the client is still reading, which has its own limit."""
        if self._transport.get_write_buffer_size():
            self._timeouts.begin(self)
        else:
            self._transport.abort()

    def end(self) -> None:
        """Record that the connection is closed."""
        self._timeouts.end(self)
