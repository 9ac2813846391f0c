"""uvicorn's connection with limits, timeouts, early disconnects and coalesced writes."""

import asyncio
from enum import Enum, auto
from typing import Any

from httptools import HttpParserError
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from embedwell.errors import (
    ClientDisconnected,
    ConnectionClosed,
    HeadTooLarge,
    MalformedRequest,
    ReceiveTimeout,
    ServiceError,
    TooManyConnections,
)
from embedwell.http.headers import merge_headers
from embedwell.http.middleware import Middleware
from embedwell.request.request_context import RequestContext
from embedwell.uvicorn_adapter.connection_limit import ConnectionLimit
from embedwell.uvicorn_adapter.input_flow import InputFlow
from embedwell.uvicorn_adapter.lingering import Lingering
from embedwell.uvicorn_adapter.upgrade import UpgradeDeclining
from embedwell.uvicorn_adapter.write_buffer import ExpectContinue, UnreadResponse, WriteBuffer

_MAX_HEAD = 1 << 16  # maximum bytes before a body, or of the lines around its chunks
_TOO_LARGE = f"the URL and headers, or the trailers, have more than {_MAX_HEAD} bytes; shorten them"
_PARSE_BYTES = 1 << 12  # bytes to parse at a time; a limit is detected at most so many bytes late
_MAX_PIPELINED = 16  # maximum parsed requests that wait; the bytes parsed last may contain more


class Stage(Enum):
    """The part of a request that the parser expects next."""

    HEAD = auto()  # or the end of the connection
    BODY = auto()  # including its chunk lines and trailers
    NOTHING = auto()  # after a request that cannot be parsed


_HEAD, _BODY, _NOTHING = Stage  # reading an attribute of an enum is as slow as a call


class Connection(UpgradeDeclining):
    """Coalesces the writes of a response, and aborts the work for a client that disconnects.

    The time limit of a body also applies to the first request, to every head, and to a client that
    does not read its response. Between requests, uvicorn's keep-alive timeout applies. Methods that
    run for every request avoid super(), which costs as much as a call.
    """

    flow: InputFlow
    _socket: asyncio.Transport
    _lingering: Lingering | None

    def __init__(self, middleware: Middleware, limit: ConnectionLimit, **options: Any) -> None:
        """limit: shared by all connections.

        options: those that uvicorn passes.
        """
        super().__init__(**options)
        self._limit = limit
        self._middleware, self._timeouts = middleware, middleware.limits.timeouts
        self._stage, self._size = _HEAD, 0  # bytes since the last bytes of a body, or its end
        self._current: RequestResponseCycle | None = None
        self.url = b""  # uvicorn sets it at the first request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._socket, self._lingering = transport, None
        super().connection_made(WriteBuffer(transport, self.loop, self._close))  # type: ignore[arg-type]
        self.flow = InputFlow(self.transport, self.loop, self._parse_unparsed)
        transport.set_write_buffer_limits(high=0)  # any unsent byte pauses writing
        self._unread_response = UnreadResponse(transport, self._timeouts)
        self._timeouts.begin(self)
        if not self._limit.admit(self):
            self._stage = _NOTHING
            self._send_error(
                TooManyConnections(
                    "the server has too many connections; try again in a few seconds"
                )
            )

    def data_received(self, data: bytes) -> None:
        self._limit.note_activity(self)
        if self._stage is _NOTHING:
            if self._lingering is not None:
                self._lingering.drop(data)
            return
        if len(data) <= _PARSE_BYTES and not self.flow.unparsed:
            self._parse_bytes(data)
            if self.flow.read_paused and self._has_room():
                self.flow.resume_reading()
        else:
            self.flow.keep(data)
            self._parse_unparsed()

    def _parse_unparsed(self) -> None:
        """Parse bytes that were read while there is room; resume reading when all are parsed."""
        if self._stage is _NOTHING:
            return
        while self.flow.unparsed and self._has_room():
            self._parse_bytes(self.flow.take(_PARSE_BYTES))
        if self.flow.unparsed or not self._has_room():
            self.flow.pause_reading()
        else:
            self.flow.resume_reading()

    def _parse_bytes(self, data: bytes | memoryview) -> None:
        self._unset_keepalive_if_required()
        self._size += len(data)
        try:
            self.parse(data)
        except HttpParserError:
            self.logger.warning("a client sent bytes that are not a valid HTTP request")
            self._stop_reading(self._unreadable())
        else:
            self._check_size_and_time()

    def on_headers_complete(self) -> None:
        UpgradeDeclining.on_headers_complete(self)
        self._stage = _BODY
        # The parser reports trailers as headers, but they must not become headers:
        # https://www.rfc-editor.org/rfc/rfc9110#section-6.5.1
        self.headers = []

    def on_body(self, body: bytes) -> None:
        UpgradeDeclining.on_body(self, body)
        self._size = 0

    def on_message_complete(self) -> None:
        UpgradeDeclining.on_message_complete(self)
        self._stage, self._size, self.headers = _HEAD, 0, []

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._current = cycle  # uvicorn's own `cycle` is the one that was parsed last
        if cycle.waiting_for_100_continue:
            app = ExpectContinue(app, cycle)
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit.note_activity(self)
        self._unread_response.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._timeouts.end(self._unread_response)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._limit.remove(self)
        self._stage = _NOTHING
        self._timeouts.end(self)
        self._timeouts.end(self._unread_response)
        if self._lingering is not None:
            self._lingering.end()
        if self._current is not None and not self._current.response_complete:
            self._current.disconnected = True
            self._current.message_event.set()
            self._abort(self._current, ClientDisconnected("the client disconnected"))

    def expire(self) -> None:
        """Close the connection; a request whose head has begun gets a response."""
        if self._in_head():
            self._send_error(
                ReceiveTimeout("the headers did not arrive in time; send them without pauses")
            )
        elif self._stage is _BODY:
            self.transport.abort()  # the rest of a body after its response
        else:
            self.transport.close()

    def waits_for_client(self) -> bool:
        """Whether a request is incomplete, or a response is not read."""
        if self._socket.is_closing():
            return False
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            is_idle = self.cycle is not None and self._stage is _HEAD and not self._in_head()
            return not is_idle or self.flow.write_paused
        return self.flow.write_paused

    def abort(self) -> None:
        """Close the connection immediately."""
        self.transport.abort()

    def shutdown(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._socket.close()  # a client that continues to send must not delay the shutdown
        else:
            super().shutdown()

    def _close(self) -> None:
        """Close the connection, or only this side of it while the client may still be sending."""
        between_requests = self._stage is _HEAD and not (
            self._size or self._in_head() or self.flow.unparsed
        )
        if between_requests or self._lingering is not None:
            self._socket.close()
        elif not self._socket.is_closing():
            self._stage, self._lingering = _NOTHING, Lingering(self._socket, self._timeouts)
            self._timeouts.end(self)
            self.flow.discard()

    def _unreadable(self) -> ConnectionClosed:
        """Create the error for a request that the parser rejected; its limit for URLs is 64 KB."""
        if len(self.url) >= _MAX_HEAD:
            return HeadTooLarge(_TOO_LARGE)
        return MalformedRequest("the request is not valid HTTP")

    def _check_size_and_time(self) -> None:
        """Reject a head that is too large, and start or stop the time limit."""
        busy = self.cycle is not None and not self.cycle.response_complete
        if self._size > _MAX_HEAD:
            self._stop_reading(HeadTooLarge(_TOO_LARGE))
        elif busy or not (self._size or self._in_head() or self._stage is _BODY):
            self._timeouts.end(self)
        else:
            self._timeouts.begin(self)

    def _has_room(self) -> bool:
        """Return whether more may be parsed: few requests wait, and little of a body."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        body_waits = self.cycle.more_body and len(self.cycle.body) > HIGH_WATER_LIMIT
        return len(self.pipeline) < _MAX_PIPELINED and not body_waits

    def _in_head(self) -> bool:
        """Whether the head of a request has begun and is incomplete."""
        return self.scope is not None and "method" not in self.scope

    def _stop_reading(self, error: ConnectionClosed) -> None:
        """Stop reading, and close the connection after the responses to complete requests."""
        invalid = self._invalid_request()
        if invalid is not None and self.pipeline:
            self.pipeline.popleft()  # the invalid one, which has not started
        last = self.pipeline[0][0] if self.pipeline else self._current
        if last is None or last.response_complete:
            self._send_error(error) if invalid is None else self.transport.close()
        else:
            last.keep_alive = False
            if last is invalid:  # its task starts in the next iteration of the event loop
                self.loop.call_soon(self._abort, last, error)
        self._stage = _NOTHING
        self._timeouts.end(self)
        self.flow.discard()  # unread bytes would reset the connection when it is closed

    def _invalid_request(self) -> RequestResponseCycle | None:
        """Return the request whose body cannot be parsed, if there is one."""
        in_body = self._stage is _BODY and self.cycle is not None and self.cycle.scope is self.scope
        return self.cycle if in_body else None

    def _abort(self, cycle: RequestResponseCycle, error: ServiceError) -> None:
        context: RequestContext | None = cycle.scope["state"].get("context")
        if context is not None and not cycle.response_started:
            context.abort(error)

    def _send_error(self, error: ConnectionClosed) -> None:
        response = self._middleware.refusal(error, merge_headers(self.headers or ()))
        headers = [*self.server_state.default_headers, *response.raw_headers]
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[error.status] + head + b"\r\n" + bytes(response.body))
        self.transport.close()
