"""Close a connection whose client may still be sending."""

import asyncio

from embedwell.http.timeouts import Timeouts

_MAX_BYTES = 64 << 20


class Lingering:
    """Half-closes a connection, and drops incoming bytes up to limits of time and size.

    After a full close, the system responds to incoming bytes with a reset. Clients and gateways
    then lose the response that they have not read yet:
    https://www.rfc-editor.org/rfc/rfc9112#section-9.6
    """

    def __init__(self, transport: asyncio.Transport, timeouts: Timeouts) -> None:
        self._transport, self._timeouts, self._remaining = transport, timeouts, _MAX_BYTES
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
