"""Receive a request's body within limits of time, size and compression."""

import time
import zlib

from starlette.types import Message, Receive

from embedwell.compute.memory_budget import Reservation
from embedwell.compute.work_queue import run_in_thread
from embedwell.errors import BadRequest, ReceiveTimeout, TooLarge, Unsupported
from embedwell.http.http_limits import HttpLimits
from embedwell.http.request_context import RequestContext

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
