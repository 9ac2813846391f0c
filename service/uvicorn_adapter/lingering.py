"""The end of a connection whose client may still be sending."""

import asyncio

from service.http.timeouts import Timeouts

_MOST = 64 << 20  # bytes


class Lingering:
    """Half-closes a connection, and drops what still comes for a time and up to a size.

    Closed at once, the system would answer what comes with a reset, on which clients and gateways
    lose the response that they have not read: https://www.rfc-editor.org/rfc/rfc9112#section-9.6
    """

    def __init__(self, transport: asyncio.Transport, patience: Timeouts) -> None:
        self._transport, self._patience, self._left = transport, patience, _MOST
        transport.write_eof()
        patience.begin(self)

    def drop(self, data: bytes) -> None:
        """Count what came."""
        self._left -= len(data)
        if self._left < 0:
            self._transport.abort()

    def expire(self) -> None:
        """Close, unless the response is still being read, for which there is a time of its own."""
        if self._transport.get_write_buffer_size():
            self._patience.begin(self)
        else:
            self._transport.abort()

    def end(self) -> None:
        """The connection is closed."""
        self._patience.end(self)
