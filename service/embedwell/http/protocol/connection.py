"""A client's connection: limits of time and size, pipelining, backpressure, and its end."""

import asyncio
import logging
import os
import time
from collections import deque
from typing import Any, Protocol

import uvicorn
from starlette.types import Scope

from embedwell.compute.request_limits import Reservation
from embedwell.errors import (
    ClientDisconnected,
    ConnectionClosed,
    MalformedRequest,
    ReceiveTimeout,
    ServiceError,
    TooManyConnections,
)
from embedwell.http.http_limits import AllowedRequests, ConnectionLimit
from embedwell.http.middleware import Middleware
from embedwell.http.protocol.request_cycle import Header, RequestCycle, date_headers, encode_head
from embedwell.http.protocol.request_parser import RequestParser, Stage
from embedwell.http.protocol.transport import (
    HalfClosed,
    UnreadResponse,
    has_end_of_input,
    seconds_unread,
)
from embedwell.http.request_context import Headers, RequestContext, merge_headers

log = logging.getLogger(__name__)

_PARSE_BYTES = 1 << 12  # bytes to parse at a time; a limit is detected at most so many bytes late
_MAX_PIPELINED = 16  # maximum parsed requests that wait; the bytes parsed last may contain more
_FIRST_REQUEST = 1.0  # seconds for which a server that stops waits for the first request
_MAX_BODY = 1 << 16  # bytes of a body that wait for the application, before reading pauses

_HEAD, _BODY = Stage.HEAD, Stage.BODY  # reading an attribute of an enum is as slow as a call


class ServerState(Protocol):
    """The state of uvicorn's server, which all connections share."""

    total_requests: int
    connections: set[Any]
    tasks: set["asyncio.Task[None]"]


class Connection(asyncio.Protocol):
    """Serves the requests of a client in their order, and aborts the work if it disconnects.

    The time limit of a body also applies to the first request, to every head, and to a client that
    does not read its response. Between requests, the limit of idle connections applies.

    One read brings up to 256 KB. That can be thousands of pipelined requests, each of which takes a
    hundred times the memory of its bytes once it is parsed. So bytes are parsed only while there is
    room, and reading pauses while some are unparsed.
    """

    transport: asyncio.Transport
    _unread_response: UnreadResponse
    _scope: Scope
    _allowed: AllowedRequests
    _opened: float  # time.monotonic

    def __init__(
        self,
        middleware: Middleware,
        limit: ConnectionLimit,
        *,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """limit: shared by all connections.

        uvicorn passes the other arguments.
        """
        self._loop = _loop or asyncio.get_running_loop()
        self._app: Any = config.app
        self._root_path, self._server, self._app_state = config.root_path, server_state, app_state
        self._middleware, self._limit = middleware, limit
        self._budget, self._timeouts = middleware.limits.budget, middleware.limits.timeouts
        self._idle_timeouts = middleware.limits.idle_timeouts
        self._parser, self._parses = RequestParser(self), True
        self._unparsed: bytes | memoryview = b""
        self.read_paused = self.write_paused = False
        self._writable = asyncio.Event()
        self.latest: RequestCycle | None = None  # was parsed last
        self._current: RequestCycle | None = None  # is served, or was last
        self.waiting = deque[RequestCycle]()  # for the responses to those before them
        self.is_closing = False  # also while the client may still be sending
        self._half_closed: HalfClosed | None = None

    # The event loop calls these methods.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._server.connections.add(self)
        self._opened = time.monotonic()
        self._scope = self._connection_scope()
        transport.set_write_buffer_limits(high=0)  # any unsent byte pauses writing
        self._unread_response = UnreadResponse(transport, self._timeouts)
        self._timeouts.begin(self)
        descriptor = transport.get_extra_info("socket").fileno()
        self._allowed = self._limit.admit(self, descriptor)
        if self._allowed is AllowedRequests.NONE:
            self._stop_parsing()
            self._send_error(_too_many_connections())

    def data_received(self, data: bytes) -> None:
        self._limit.note_activity(self)
        if self._half_closed is not None:
            self._half_closed.drop(data)
        elif self._parses:
            self._unparsed = bytes(self._unparsed) + data if self._unparsed else data
            self._parse()

    def pause_writing(self) -> None:
        self.write_paused = True
        self._writable.clear()
        self._limit.note_activity(self)
        self._unread_response.begin()
        self._budget.pause(self)

    def resume_writing(self) -> None:
        self.write_paused = False
        self._writable.set()
        self._unread_response.end()
        self._budget.resume(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._limit.remove(self)
        self._stop_parsing()
        self.is_closing = True
        self.resume_writing()
        if self._half_closed is not None:
            self._half_closed.end()
        self.waiting.clear()
        self.latest = self._current
        if self._current is not None and not self._current.response_complete:
            self._current.disconnect()
            self._abort(self._current, ClientDisconnected("the client disconnected"))
        self._parser.close()

    # The parser calls this method.

    def start_request(
        self, scope: Scope, keep_alive: bool, expects_continue: bool
    ) -> RequestCycle | None:
        started = time.perf_counter()
        if self._server.tasks:  # else the event loop was idle, and has read the head at once
            started -= seconds_unread(self.transport)
        state = {**self._app_state, "started": started, "has_hung_up": self._has_hung_up}
        scope.update(self._scope, state=state, path=self._root_path + scope["path"])
        if self._root_path:
            scope["raw_path"] = self._root_path.encode() + scope["raw_path"]
        if self._allowed is AllowedRequests.HEALTH_CHECKS:
            path = scope["path"].removeprefix(self._root_path)
            if not self._middleware.traits[path].is_health_check:
                self._send_error(_too_many_connections(), merge_headers(scope["headers"]))
                return None
            keep_alive = False  # others need the connection for theirs
        cycle = self.latest = RequestCycle(self, scope, keep_alive, expects_continue)
        if self._is_busy():
            self.waiting.append(cycle)
        else:
            self._serve(cycle)
        return cycle

    # A request's response calls these methods.

    @property
    def default_headers(self) -> list[Header]:
        return date_headers(int(time.time()))

    def write(self, parts: list[bytes]) -> None:
        if not self.is_closing and not self.transport.is_closing():
            self.transport.writelines(parts)

    async def drain(self) -> None:
        await self._writable.wait()

    def continue_reading(self) -> None:
        """Parse the bytes that wait for room; without any, resume reading."""
        if self.read_paused and self._parses:
            self._parse()

    def end_response(self) -> None:
        self._server.total_requests += 1
        if self.is_closing or self.transport.is_closing():
            return
        if self.waiting:
            self._serve(self.waiting.popleft())
        self.continue_reading()
        self._limit.note_activity(self)
        self._set_timers()

    def close(self) -> None:
        """Close the connection, or only this side of it while the client may still be sending."""
        between_requests = self._parses and not (
            self._parser.is_incomplete or self._unparsed or self.read_paused
        )
        self._stop_parsing()
        if between_requests or self.is_closing:
            self.transport.close()
        elif not self.transport.is_closing():
            self._half_closed = HalfClosed(self.transport, self._timeouts)
            self._resume_reading()  # unread bytes would reset the connection when it is closed
        self.is_closing = True

    # The limits and the server call these methods.

    def expire(self) -> None:
        """Close the connection; a request whose head has begun gets a response."""
        if self._parser.stage is _HEAD:
            self._send_error(
                ReceiveTimeout("the headers did not arrive in time; send them without pauses")
            )
        elif self._parser.stage is _BODY:
            self.transport.abort()  # the rest of a body after its response
        else:
            self.close()

    def waits_for_client(self) -> bool:
        """Whether a request is incomplete, or a response is not read."""
        latest = self.latest
        if latest is None or latest.response_complete or latest.more_body:
            return self.write_paused or not self._is_between_requests()
        return self.write_paused

    def is_idle(self) -> bool:
        """Whether the client may send its next request, and has not begun to."""
        return not self._is_busy() and not self.transport.is_closing() and self._parses

    def expects_first_request(self) -> bool:
        """Whether the client has just connected, and its first request has not begun."""
        is_new = self._current is None and self._parses
        return is_new and time.monotonic() - self._opened < _FIRST_REQUEST

    def make_room(self) -> None:
        """Close the connection immediately; an idle one without a reset."""
        if self._is_between_requests() and not self.write_paused:
            self.close()
        else:
            self.transport.abort()

    def _is_between_requests(self) -> bool:
        return self._current is not None and self._parses and not self._parser.is_incomplete

    @property
    def memory(self) -> Reservation | None:
        """The reservation of the request that is served, or was last."""
        context = self._context(self._current)
        return context.memory if context else None

    def give_way(self) -> None:
        """Close the connection, because others need the memory of a response that is not read."""
        context = self._context(self._current)
        log.warning(
            "request %s: its connection is closed, because the client does not read the response "
            "and other requests need the memory",
            context and context.id,
        )
        self.transport.abort()

    def shutdown(self) -> None:
        """Close the connection after the responses to the requests that have arrived."""
        if self.latest is not None and not self.latest.response_complete:
            self.latest.keep_alive = False
        else:
            self.transport.close()  # a client that still sends must not delay the shutdown

    def _connection_scope(self) -> Scope:
        """Return what the scopes of all requests have in common."""
        server, client = map(self.transport.get_extra_info, ("sockname", "peername"))
        is_unix = isinstance(server, str | bytes)  # bytes are the name of an abstract socket
        return {
            "scheme": "https" if self.transport.get_extra_info("sslcontext") else "http",
            "server": (os.fsdecode(server), None) if is_unix else server and server[:2],
            "client": client[:2] if isinstance(client, tuple) else None,
            "root_path": self._root_path,
        }

    def _serve(self, cycle: RequestCycle) -> None:
        self._current = cycle
        self._server.tasks.add(self._loop.create_task(self._run(cycle)))

    async def _run(self, cycle: RequestCycle) -> None:
        """Serve a request in a task of its own.

        A callback of the task would run after the next request has been read.
        """
        task = asyncio.current_task()
        assert task is not None
        try:
            await cycle.run(self._app)
        finally:
            self._server.tasks.discard(task)

    def _parse(self) -> None:
        """Parse the bytes that were read while there is room; read on when all are parsed."""
        try:
            while self._unparsed and self._has_room():
                data: bytes | memoryview = self._unparsed
                if len(data) > _PARSE_BYTES:
                    data = memoryview(data)
                self._unparsed = data[_PARSE_BYTES:]
                self._parser.feed(data[:_PARSE_BYTES])
        except ConnectionClosed as error:
            self._refuse(error)
            return
        if not self._unparsed and self._has_room():
            self._resume_reading()
        elif not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()
        self._set_timers()

    def _resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def _stop_parsing(self) -> None:
        self._parses, self._unparsed = False, b""
        self._timeouts.end(self)
        self._idle_timeouts.end(self)

    def _has_room(self) -> bool:
        """Return whether more may be parsed: few requests wait, and little of a body."""
        latest = self.latest
        if latest is None or latest.response_complete:
            return True
        body_waits = latest.more_body and len(latest.body) > _MAX_BODY
        return len(self.waiting) < _MAX_PIPELINED and not body_waits

    def _is_busy(self) -> bool:
        return self._current is not None and not self._current.response_complete

    def _set_timers(self) -> None:
        """Start the time limit of an incomplete request, or of an idle connection."""
        if not self._parses:
            return
        if self._is_busy():
            self._timeouts.end(self)
            self._idle_timeouts.end(self)
        elif self._parser.is_incomplete:
            self._idle_timeouts.end(self)
            self._timeouts.begin(self)
        else:
            self._timeouts.end(self)
            self._idle_timeouts.begin(self)

    def _refuse(self, error: ConnectionClosed) -> None:
        """Stop reading, and close the connection after the responses to complete requests."""
        if isinstance(error, MalformedRequest):
            self._middleware.invalid_requests.write()
        invalid = self.latest if self._parser.stage is _BODY else None
        if invalid is not None and self.waiting:
            self.waiting.pop()  # the invalid one, which has not started
            self.latest = self.waiting[-1] if self.waiting else self._current
        last = self.latest
        if last is None or last.response_complete:
            self._send_error(error) if invalid is None else self.close()
            return
        last.keep_alive = False
        if last is invalid:  # its task starts in the next iteration of the event loop
            self._loop.call_soon(self._abort, last, error)
        self._stop_parsing()
        self._resume_reading()

    def _has_hung_up(self) -> bool:
        return self.transport.is_closing() or has_end_of_input(self.transport)

    def _context(self, cycle: RequestCycle | None) -> RequestContext | None:
        """Return the context of a request, if the middleware has created it."""
        context: RequestContext | None = cycle.scope["state"].get("context") if cycle else None
        return context

    def _abort(self, cycle: RequestCycle, error: ServiceError) -> None:
        context = self._context(cycle)
        if context is not None and not cycle.response_started:
            context.abort(error)

    def _send_error(self, error: ConnectionClosed, headers: Headers | None = None) -> None:
        """Respond to what has been read with an error, and close the connection.

        headers: those of the request; by default, as far as they have been parsed.
        """
        if headers is None:
            headers = merge_headers(self._parser.headers)
        response = self._middleware.refusal(error, headers)
        head = encode_head(error.status, [*self.default_headers, *response.raw_headers])
        self.write([head, bytes(response.body)])
        self.close()


def _too_many_connections() -> TooManyConnections:
    return TooManyConnections(
        "the server has too many connections; try again in a few seconds", retry_after=1
    )
