"""A connection: uvicorn's, with fewer system calls, and an eye on who dawdles or leaves."""

import asyncio
from enum import Enum, auto
from typing import Any

from httptools import HttpParserError
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from service.errors import (
    Cut,
    HeadTooLarge,
    HungUp,
    Malformed,
    ReceiveTimeout,
    ServiceError,
    TooManyConnections,
)
from service.http.headers import joined
from service.http.middleware import Middleware
from service.request.request_context import RequestContext
from service.uvicorn_adapter.input_flow import InputFlow
from service.uvicorn_adapter.lingering import Lingering
from service.uvicorn_adapter.upgrade import Declining
from service.uvicorn_adapter.write_buffer import Asked, Unread, WriteBuffer

_MOST = 1 << 16  # bytes of a request before its body, or of what is behind and between its chunks
_TOO_LARGE = f"the URL and headers, or the trailers, have more than {_MOST} bytes"
_PIECE = 1 << 12  # bytes parsed at a time; so much may come beyond a limit before it is seen
_AHEAD = 16  # requests that wait for an answer while more are parsed; a piece may bring more


class Stage(Enum):
    """What of a request comes next."""

    HEAD = auto()  # if there is one more
    BODY = auto()  # with what is around its chunks, and the trailer
    NOTHING = auto()  # what came cannot be read, and so nothing behind it


_HEAD, _BODY, _NOTHING = Stage  # to ask the class for one takes as long as to call a method


class Connection(Declining):
    """Sends whole what uvicorn writes in pieces, and ends the work for a client that has left.

    The first request, and the head of each, are waited for as long as a body, and so is a client
    that reads nothing of its answer; between requests the connection may rest for as long as
    uvicorn keeps it alive. What every request calls has no super(), which takes as long as that.
    """

    flow: InputFlow
    _socket: asyncio.Transport
    _lingering: Lingering | None

    def __init__(self, edge: Middleware, **given: Any) -> None:
        """given: what uvicorn gives."""
        super().__init__(**given)
        self._edge, self._patience = edge, edge.bounds.patience
        self._stage, self._size = _HEAD, 0  # bytes since there was some of a body, or its end
        self._running: RequestResponseCycle | None = None
        self.url = b""  # which uvicorn's has from the first request on

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._socket, self._lingering = transport, None
        super().connection_made(WriteBuffer(transport, self.loop, self._close))  # type: ignore[arg-type]
        self.flow = InputFlow(self.transport, self.loop, self._parse_unparsed)
        transport.set_write_buffer_limits(high=0)  # so that whatever is unread pauses writing
        self._unread = Unread(transport, self._patience)
        self._patience.begin(self)
        if len(self.connections) > self._edge.bounds.connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        if self._stage is _NOTHING:
            if self._lingering is not None:
                self._lingering.drop(data)
            return
        if len(data) <= _PIECE and not self.flow.unparsed:
            self._parse_piece(data)
            if self.flow.read_paused and self._has_room():
                self.flow.resume_reading()
        else:
            self.flow.keep(data)
            self._parse_unparsed()

    def _parse_unparsed(self) -> None:
        """Parse what was read as far as there is room; read more when all of it is parsed."""
        if self._stage is _NOTHING:
            return
        while self.flow.unparsed and self._has_room():
            self._parse_piece(self.flow.take(_PIECE))
        if self.flow.unparsed or not self._has_room():
            self.flow.pause_reading()
        else:
            self.flow.resume_reading()

    def _parse_piece(self, data: bytes | memoryview) -> None:
        self._unset_keepalive_if_required()
        self._size += len(data)
        try:
            self.parse(data)
        except HttpParserError:
            self.logger.warning("what a client sent is no HTTP request that can be read")
            self._break(self._unreadable())
        else:
            self._judge()

    def on_headers_complete(self) -> None:
        Declining.on_headers_complete(self)
        self._stage = _BODY
        # The parser tells of trailers as of headers, which they must not become:
        # https://www.rfc-editor.org/rfc/rfc9110#section-6.5.1
        self.headers = []

    def on_body(self, body: bytes) -> None:
        Declining.on_body(self, body)
        self._size = 0

    def on_message_complete(self) -> None:
        Declining.on_message_complete(self)
        self._stage, self._size, self.headers = _HEAD, 0, []

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle  # uvicorn's own `cycle` is the last that came
        if cycle.waiting_for_100_continue:
            app = Asked(app, cycle)
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._patience.end(self._unread)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stage = _NOTHING
        self._patience.end(self)
        self._patience.end(self._unread)
        if self._lingering is not None:
            self._lingering.end()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
            self._give_up(self._running, HungUp("the client has hung up"))

    def expire(self) -> None:
        """Close; with an answer if a request has begun that has none."""
        if self._heading():
            self._refuse(ReceiveTimeout("the headers did not come in time; send them at once"))
        elif self._stage is _BODY:
            self.transport.abort()  # the rest of a body whose request is answered
        else:
            self.transport.close()

    def shutdown(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._socket.close()  # the server does not stop later for a client that goes on sending
        else:
            super().shutdown()

    def _close(self) -> None:
        """Close the connection; of a client that may still be sending, only our side of it."""
        whole = self._stage is _HEAD and not (self._size or self._heading() or self.flow.unparsed)
        if whole or self._lingering is not None:
            self._socket.close()
        elif not self._socket.is_closing():
            self._stage, self._lingering = _NOTHING, Lingering(self._socket, self._patience)
            self._patience.end(self)
            self.flow.discard()

    def _unreadable(self) -> Cut:
        """What is told of what the parser refuses: it reads URLs of less than 64 KB."""
        if len(self.url) >= _MOST:
            return HeadTooLarge(_TOO_LARGE)
        return Malformed("this is no HTTP request that can be read")

    def _judge(self) -> None:
        """Whether what has come is too much, or not all that should."""
        busy = self.cycle is not None and not self.cycle.response_complete
        if self._size > _MOST:
            self._break(HeadTooLarge(_TOO_LARGE))
        elif busy or not (self._size or self._heading() or self._stage is _BODY):
            self._patience.end(self)
        else:
            self._patience.begin(self)

    def _make_room(self) -> None:
        """Close another connection, one that waits for its client; where none does, this one."""
        others = (each for each in self.connections if isinstance(each, Connection))
        waiting = (each for each in others if each is not self and each._waits_for_client())
        if (closed := next(waiting, None)) is not None:
            closed.transport.abort()
        else:
            self._stage = _NOTHING
            self._refuse(TooManyConnections("the server has too many connections; come again"))

    def _waits_for_client(self) -> bool:
        """Whether a request has not come whole, or a response is not read."""
        if self._socket.is_closing():
            return False
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            rests = self.cycle is not None and self._stage is _HEAD and not self._heading()
            return not rests or self.flow.write_paused
        return self.flow.write_paused

    def _has_room(self) -> bool:
        """Whether few requests wait, and little of a body, so that more may be parsed."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        waiting = self.cycle.more_body and len(self.cycle.body) > HIGH_WATER_LIMIT
        return len(self.pipeline) < _AHEAD and not waiting

    def _heading(self) -> bool:
        """Whether the head of a request has begun, and not come whole."""
        return self.scope is not None and "method" not in self.scope

    def _break(self, error: Cut) -> None:
        """Read nothing more, and end the connection when what came whole is answered."""
        faulty = self._faulty()
        if faulty is not None and self.pipeline:
            self.pipeline.popleft()  # the faulty one, which was not begun
        last = self.pipeline[0][0] if self.pipeline else self._running
        if last is None or last.response_complete:
            self._refuse(error) if faulty is None else self.transport.close()
        else:
            last.keep_alive = False
            if last is faulty:  # a task that was just made has no call before the next turn
                self.loop.call_soon(self._give_up, last, error)
        self._stage = _NOTHING
        self._patience.end(self)
        self.flow.discard()  # what is not taken in would reset the connection at its end

    def _faulty(self) -> RequestResponseCycle | None:
        """The request whose body it is that cannot be read, if it is that."""
        known = self._stage is _BODY and self.cycle is not None and self.cycle.scope is self.scope
        return self.cycle if known else None

    def _give_up(self, cycle: RequestResponseCycle, error: ServiceError) -> None:
        context: RequestContext | None = cycle.scope["state"].get("context")
        if context is not None and not cycle.response_started:
            context.abort(error)

    def _refuse(self, error: Cut) -> None:
        answer = self._edge.refuse(error, joined(self.headers or ()))
        headers = [*self.server_state.default_headers, *answer.raw_headers]
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[error.status] + head + b"\r\n" + bytes(answer.body))
        self.transport.close()
