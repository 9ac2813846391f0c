"""Limits of an HTTP process: time of clients, size of bodies, memory, and number of connections.

A request's body is received within them, and decompressed.
"""

import asyncio
import resource
import sys
import time
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Protocol

from starlette.types import Message, Receive

from embedwell.compute.activity import Heartbeat
from embedwell.compute.request_limits import MemoryBudget, Reservation
from embedwell.compute.work_queue import run_in_thread
from embedwell.errors import BadRequest, ReceiveTimeout, TooLarge, Unsupported
from embedwell.http.request_context import RequestContext

_HEALTH_CHECKS = 8  # connections that are kept for health checks
_SPARE_DESCRIPTORS = 2 * _HEALTH_CHECKS  # for them, and for files
_IDLE_SECONDS = 120.0  # longer than gateways and clients (90 s) keep idle connections


class Expirable(Protocol):
    """An object with a time limit."""

    def expire(self) -> None:
        """Handle the end of the time limit."""


class Timeouts:
    """Calls expire() of every object that has not ended in time, up to 10% of the time later.

    A timer for each request would cost more than the validation of its body.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[Expirable, float] = {}  # oldest first
        self._ticks = False

    def begin(self, waiting: Expirable) -> None:
        """Start the time limit, unless it runs already."""
        self._since.setdefault(waiting, time.monotonic())
        if not self._ticks:
            self._ticks = True
            self._sleep()

    def end(self, waiting: Expirable) -> None:
        """Stop the time limit."""
        self._since.pop(waiting, None)

    def _sleep(self) -> None:
        asyncio.get_running_loop().call_later(self._seconds / 10, self._tick)

    def _tick(self) -> None:
        oldest = time.monotonic() - self._seconds
        try:
            for waiting in [waiting for waiting, since in self._since.items() if since < oldest]:
                self.end(waiting)
                waiting.expire()
        finally:  # an exception of one object must not stop the timer of all others
            self._ticks = bool(self._since)
            if self._ticks:
                self._sleep()


@dataclass(frozen=True)
class HttpLimits:
    """Limits of an HTTP process, with the timer and the memory budget that enforce them.

    size: maximum bytes of a body, before and after decompression.
    timeouts: time limits of bodies and of heads.
    budget: memory for all large requests together.
    connections: maximum count of connections.
    idle_timeouts: time limit of connections between requests.
    """

    size: int
    timeouts: Timeouts
    budget: MemoryBudget = field(default_factory=MemoryBudget)
    connections: int = sys.maxsize
    idle_timeouts: Timeouts = field(default_factory=partial(Timeouts, _IDLE_SECONDS))


class LimitedConnection(Protocol):
    """A connection that may be closed to make room for another."""

    def waits_for_client(self) -> bool:
        """Whether a request is incomplete, or a response is not read."""

    def is_idle(self) -> bool:
        """Whether the client may send its next request, and has not begun to."""

    def make_room(self) -> None:
        """Close the connection immediately."""


class AllowedRequests(Enum):
    """Requests that a new connection may send."""

    ALL = auto()
    HEALTH_CHECKS = auto()
    NONE = auto()


class ConnectionLimit:
    """The open connections, limited in number, and a few more for health checks.

    So many descriptors are left to these few that health checks have some when others run out.
    """

    def __init__(
        self,
        limit: int,
        health_checks: int = _HEALTH_CHECKS,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        """health_checks: connections beyond the limit that only send health checks.

        heartbeat: is told that a client connects, or sends or receives something.
        """
        self._heartbeat = heartbeat
        self._connections, self._health_checks = _Connections(limit), _Connections(health_checks)

    def admit(self, new: LimitedConnection, descriptor: int = 0) -> AllowedRequests:
        """Add a connection; at the limit, close another one that has no request to finish.

        That is the one that waits for its client longest, or else the one that is idle longest.
        descriptor: that of the connection's socket, the lowest that was free.
        """
        self._note_use()
        if self._connections.add(new, must_replace=descriptor >= _most_descriptors()):
            return AllowedRequests.ALL
        return (
            AllowedRequests.HEALTH_CHECKS if self._health_checks.add(new) else AllowedRequests.NONE
        )

    def note_activity(self, connection: LimitedConnection) -> None:
        """Record that the client has sent or received something."""
        self._note_use()
        for connections in (self._connections, self._health_checks):
            if connection in connections.open:
                connections.open.move_to_end(connection)

    def _note_use(self) -> None:
        if self._heartbeat is not None and not self._heartbeat.used:
            self._heartbeat.note_use()

    def remove(self, connection: LimitedConnection) -> None:
        """Remove a connection that is closed or was not admitted."""
        for connections in (self._connections, self._health_checks):
            connections.open.pop(connection, None)


class _Connections:
    """Connections up to a number. open: the most recently active last."""

    def __init__(self, limit: int) -> None:
        self._limit, self.open = limit, OrderedDict[LimitedConnection, None]()

    def add(self, new: LimitedConnection, must_replace: bool = False) -> bool:
        if must_replace or len(self.open) >= self._limit:
            old = next((other for other in self.open if other.waits_for_client()), None)
            old = old or next((other for other in self.open if other.is_idle()), None)
            if old is None:
                return False
            del self.open[old]
            old.make_room()
        self.open[new] = None
        return True


def _most_descriptors() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - _SPARE_DESCRIPTORS


# zlib's window bits for the encodings of
# https://www.rfc-editor.org/rfc/rfc9110#field.content-encoding.
_GZIP = zlib.MAX_WBITS + 16
_FORMATS = {b"gzip": _GZIP, b"x-gzip": _GZIP, b"deflate": zlib.MAX_WBITS}
_PROGRESS = 1 << 18  # bytes after which a client that sends a body is not slow
_COPIES = 3  # copies of a body in memory: chunks, joined, and parsed
_RATIO, _FREE = 100, 1 << 20  # compression ratio, and bytes allowed at any ratio
_MEMBERS = 1000
_SMALL = 1 << 12  # bytes of a compressed body, which inflate in a few milliseconds
_BLOCK = 1 << 12  # bytes; zlib copies the rest of its input at the end of each member


class LimitedReceive:
    """ASGI `receive` that rejects a body above the limit, also without a content-length."""

    def __init__(self, receive: Receive, limits: HttpLimits, context: RequestContext) -> None:
        self._receive, self._limits, self._context = receive, limits, context
        self._remaining = limits.size
        self._waited, self._received = 0.0, 0  # seconds and bytes since the latest progress

    async def __call__(self) -> Message:
        self._limits.timeouts.begin(self)
        holds_memory = self._context.memory.reserved
        message = await (self._receive_or_give_way() if holds_memory else self._receive())
        if not message.get("more_body", False):
            self.stop_timer()
        size = len(message.get("body", b""))
        self._remaining -= size
        if self._remaining < 0:
            raise body_too_large_error(self._limits.size)
        self._context.memory.grow(_COPIES * size)
        return message

    def stop_timer(self) -> None:
        """Stop the time limit of the body."""
        self._limits.timeouts.end(self)

    @property
    def memory(self) -> Reservation:
        """The reservation of the request."""
        return self._context.memory

    def give_way(self) -> None:
        """Abort the request, because others need the memory of its incomplete body."""
        self._context.abort(
            ReceiveTimeout(
                "the body arrives too slowly, and other requests need its memory; send it without "
                "pauses, or send smaller requests"
            )
        )

    def expire(self) -> None:
        """Abort the request."""
        error = ReceiveTimeout("the body did not arrive in time; send it without pauses")
        self._context.abort(error)

    async def _receive_or_give_way(self) -> Message:
        """Receive, unless the client sends too little while others need the memory of its body."""
        budget, started = self.memory.budget, time.monotonic()
        budget.pause(self, self._waited)
        try:
            message = await self._receive()
        finally:
            budget.resume(self)
        self._received += len(message.get("body", b""))
        self._waited += time.monotonic() - started
        if self._received >= _PROGRESS:
            self._waited, self._received = 0.0, 0
        return message


class DecompressingReceive:
    """ASGI `receive` that decompresses a body, and rejects it as soon as it exceeds a limit."""

    def __init__(
        self, receive: Receive, encoding: bytes, max_size: int, memory: Reservation
    ) -> None:
        """Raises Unsupported for an unknown encoding."""
        wbits = _FORMATS.get(encoding.strip().lower())
        if wbits is None:
            raise Unsupported(
                f"content-encoding {encoding.decode('latin-1')!r} is not supported; send "
                "gzip, deflate, or an uncompressed body",
                code="unsupported_encoding",
                header="accept-encoding",
                supported="gzip, deflate",
            )
        self._receive, self._memory = receive, memory
        self._remaining = self._max_size = max_size
        self._wbits, self._stream = wbits, zlib.decompressobj(wbits)
        self._allowed, self._members = _FREE, _MEMBERS

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request":
            return message
        data = message.get("body", b"")
        body = await run_in_thread(self._inflate, data, small=len(data) <= _SMALL)
        self._memory.grow(_COPIES * len(body))
        if not message.get("more_body", False) and not self._stream.eof:
            raise _broken("it ends too early")
        return {**message, "body": body}

    def _inflate(self, data: bytes) -> bytes:
        self._allowed += _RATIO * len(data)
        blocks, starts = memoryview(data), range(0, len(data), _BLOCK)
        return b"".join(self._block(blocks[start : start + _BLOCK]) for start in starts)

    def _block(self, data: bytes | memoryview) -> bytes:
        pieces = []
        while data:
            if self._stream.eof:
                self._stream = self._next_member()
            pieces.append(self._member(data))
            data = self._stream.unused_data
        return b"".join(pieces)

    def _next_member(self) -> "zlib._Decompress":
        # https://www.rfc-editor.org/rfc/rfc1952#section-2.2
        if self._wbits != _GZIP:
            raise _broken("there are bytes after its end")
        self._members -= 1
        if not self._members:
            raise TooLarge(
                f"the gzip body has more than {_MEMBERS} members; compress it as one",
                code="too_many_parts",
            )
        return zlib.decompressobj(self._wbits)

    def _member(self, data: bytes | memoryview) -> bytes:
        try:
            # One byte beyond the limit shows that the body exceeds it.
            piece = self._stream.decompress(data, min(self._remaining, self._allowed) + 1)
        except zlib.error as error:
            raise _broken(str(error)) from None
        self._remaining -= len(piece)
        self._allowed -= len(piece)
        if self._remaining < 0:
            raise body_too_large_error(self._max_size)
        if self._allowed < 0:
            raise TooLarge(
                f"the body inflates to more than {_RATIO} times its size; send it uncompressed",
                code="body_too_large",
            )
        return piece


def body_too_large_error(max_size: int) -> TooLarge:
    """Create the error for a body above the limit."""
    return TooLarge(
        f"the body has more than {max_size} bytes; send fewer inputs per request",
        code="body_too_large",
    )


def _broken(reason: str) -> BadRequest:
    return BadRequest(f"the compressed body cannot be read: {reason}", code="broken_encoding")
