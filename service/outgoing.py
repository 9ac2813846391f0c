"""Answers as they go: together, and not for ever to a client that does not read."""

import asyncio
from typing import Any

from service.patience import Patience


class Unread:
    """What is left of an answer that a client does not read as fast as it is sent."""

    def __init__(self, transport: asyncio.Transport, patience: Patience) -> None:
        self._transport, self._patience, self._left = transport, patience, 0

    def begin(self) -> None:
        """Wait until something of it is read."""
        self._left = self._transport.get_write_buffer_size()
        self._patience.begin(self)

    def expire(self) -> None:
        """End the connection, unless some was read in the meantime."""
        if self._transport.get_write_buffer_size() < self._left:
            self.begin()
        else:
            self._transport.abort()


class Gathered:
    """A transport that sends together what is written in one turn of the event loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        held, self._held = self._held, []
        if held and not self._transport.is_closing():
            self._transport.writelines(held)
