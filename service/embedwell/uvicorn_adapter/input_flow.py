"""Flow control that parses requests only while there is room for them."""

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl


class InputFlow(FlowControl):
    """uvicorn's flow control, extended with bytes that were read and wait for room.

    One read brings up to 256 KB. That can be thousands of pipelined requests, each of which takes a
    hundred times the memory of its bytes once it is parsed.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        parse: Callable[[], None],
    ) -> None:
        """parse: takes unparsed bytes; called when there may be room for them."""
        super().__init__(transport)
        self._loop, self._parse, self._scheduled = loop, parse, False
        self.unparsed = memoryview(b"")

    def keep(self, data: bytes) -> None:
        """Add to the unparsed bytes."""
        self.unparsed = memoryview(bytes(self.unparsed) + data if self.unparsed else data)

    def take(self, size: int) -> memoryview:
        """Remove and return the first unparsed bytes."""
        first, self.unparsed = self.unparsed[:size], self.unparsed[size:]
        return first

    def discard(self) -> None:
        """Drop the unparsed bytes, and continue reading."""
        self.unparsed = memoryview(b"")
        self.resume_reading()

    def resume_reading(self) -> None:
        """Parse the bytes that wait; without any, resume reading."""
        if not self.read_paused:  # the usual case, without unparsed bytes
            return
        if not self.unparsed:
            FlowControl.resume_reading(self)
        elif not self._scheduled:
            # Not now, because uvicorn calls this just before it takes the body that fills the room.
            self._scheduled = True
            self._loop.call_soon(self._parse_now)

    def _parse_now(self) -> None:
        self._scheduled = False
        self._parse()
