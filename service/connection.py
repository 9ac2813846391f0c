"""A connection: uvicorn's, with fewer system calls, and an eye on who dawdles or leaves."""

import asyncio
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from service.call import Call
from service.edge import identify
from service.errors import Cut, HeadTooLarge, Malformed, ReceiveTimeout, respond
from service.patience import Patience

_HEAD = 1 << 16  # bytes of a request before its body
_AHEAD = 16  # requests that wait for an answer while still more are read


class Connection(HttpToolsProtocol):
    """Sends whole what uvicorn writes in pieces, and ends the work for a client that has left.

    The first request, and the head of each, are waited for as long as a body, and so is a client
    that reads nothing of its answer; between requests the connection may rest for as long as
    uvicorn keeps it alive.
    """

    def __init__(self, patience: Patience, **given: Any) -> None:
        """given: what uvicorn gives."""
        super().__init__(**given)
        self._patience, self._whole, self._size = patience, False, 0
        self._running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Gathered(transport, self.loop))  # type: ignore[arg-type]
        self._unread = Unread(transport, self._patience)
        self._patience.begin(self)

    def data_received(self, data: bytes) -> None:
        self._whole = False
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except HttpParserError:
            self.logger.warning("what a client sent is no HTTP request that can be read")
            self.send_400_response("")
            return
        if self._whole or self._busy:
            self._size = 0
            self._patience.end(self)
            return
        self._patience.begin(self)
        self._size += len(data)
        if self._heading and self._size > _HEAD:
            self._refuse(HeadTooLarge(f"the headers have more than {_HEAD} bytes"))

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._whole = True
        # A large body pauses reading, and so does a request that waits for the one before; who does
        # not read does not see the client leave.
        if len(self.pipeline) < _AHEAD:
            self.flow.resume_reading()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle  # uvicorn's own `cycle` is the last that came
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._patience.end(self._unread)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._patience.end(self)
        self._patience.end(self._unread)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
            call: Call | None = self._running.scope["state"].get("call")
            if call is not None:
                call.hang_up()

    def expire(self) -> None:
        """Close; with an answer if a request has begun that has none."""
        if self._size and self._heading:
            self._refuse(ReceiveTimeout("the headers did not come in time; send them at once"))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP in the one shape of errors."""
        self._refuse(Malformed("this is no HTTP request that can be read"))

    def _parse(self, data: bytes | memoryview) -> None:
        while True:
            try:
                self.parser.feed_data(data)
                return
            except HttpParserUpgrade as offer:
                # The parser takes it that the connection changes at the end of this head.
                if not self._should_upgrade():
                    return
                data = memoryview(data)[offer.args[0] :]
                self._decline()

    def _should_upgrade(self) -> bool:
        """Whether the head just read is none to uvicorn: it is read again without its offer."""
        return bool(self.parser.get_method() != b"CONNECT")

    def _decline(self) -> None:
        """Read the head again without its offer to speak another protocol.

        Java's client makes one in every request: https://www.rfc-editor.org/rfc/rfc9110#section-7.8
        """
        method, version = self.parser.get_method(), self.parser.get_http_version()
        kept = [header for header in self.headers if header[0] != b"upgrade"]
        lines = [b"%s %s HTTP/%s" % (method, self.url, version.encode())]
        lines += [b"%s: %s" % header for header in kept]
        self.parser = HttpRequestParser(self)  # the old one may be at its end
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        self.parser.feed_data(b"\r\n".join(lines) + b"\r\n\r\n")

    @property
    def _busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _heading(self) -> bool:
        """Whether the head of a request has not come whole."""
        return self.scope is None or "method" not in self.scope

    def _refuse(self, error: Cut) -> None:
        running = self._running
        if running is not None and not running.response_complete:
            running.keep_alive = False  # its answer comes first, and ends the connection
            return
        call = Call(identify(dict(self.headers or ())))
        answer = respond(error, call.id)
        default = self.server_state.default_headers
        headers = [*default, *answer.raw_headers, *call.headers()]
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[error.status] + head + b"\r\n" + bytes(answer.body))
        self.transport.close()


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
