"""Bytes of a connection that were read, and are parsed when there is room for them."""

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl


class InputFlow(FlowControl):
    """uvicorn's flow control, with the bytes that came before there was room for them.

    One read brings up to 256 KB: thousands of pipelined requests, of which each takes a hundred
    times the memory of its bytes once it is parsed.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        parse: Callable[[], None],
    ) -> None:
        """parse: called when there may be room for unparsed bytes; takes them."""
        super().__init__(transport)
        self._loop, self._parse, self._scheduled = loop, parse, False
        self.unparsed = memoryview(b"")

    def keep(self, data: bytes) -> None:
        """Add to the unparsed bytes."""
        self.unparsed = memoryview(bytes(self.unparsed) + data if self.unparsed else data)

    def take(self, size: int) -> memoryview:
        """The first of the unparsed bytes."""
        piece, self.unparsed = self.unparsed[:size], self.unparsed[size:]
        return piece

    def discard(self) -> None:
        """Drop the unparsed bytes, and go on reading."""
        self.unparsed = memoryview(b"")
        self.resume_reading()

    def resume_reading(self) -> None:
        """Parse the bytes that were read; go on reading when there are none."""
        if not self.read_paused:  # as mostly; then no bytes are unparsed
            return
        if not self.unparsed:
            FlowControl.resume_reading(self)
        elif not self._scheduled:
            # Not now: uvicorn calls this just before it takes the body that fills the room.
            self._scheduled = True
            self._loop.call_soon(self._parse_now)

    def _parse_now(self) -> None:
        self._scheduled = False
        self._parse()
