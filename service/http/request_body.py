"""A request's body as it comes: not for ever, not beyond its limit, and inflated."""

import sys
import zlib
from dataclasses import dataclass, field
from functools import partial

from starlette.types import Message, Receive

from service.errors import BadRequest, ReceiveTimeout, TooLarge, Unsupported
from service.http.timeouts import Timeouts
from service.request.memory_budget import MemoryBudget, Reservation
from service.request.request_context import RequestContext
from service.request.run_in_thread import run_in_thread

# The formats of https://www.rfc-editor.org/rfc/rfc9110#field.content-encoding, for zlib.
_GZIP = zlib.MAX_WBITS + 16
_FORMATS = {b"gzip": _GZIP, b"x-gzip": _GZIP, b"deflate": zlib.MAX_WBITS}
_COPIES = 3  # of a body: as it comes, as a whole, and what it says
_RATIO, _FREE = 100, 1 << 20  # bytes that one inflates to, beside those that always may come
_MEMBERS = 1000
_SMALL = 1 << 12  # bytes of a compressed body, which inflate in a few milliseconds
_BLOCK = 1 << 12  # bytes; what is behind a member's end is copied, once for each member


@dataclass(frozen=True)
class Bounds:
    """size: the most bytes of a body, inflated or not. patience: with those that do not come.

    budget: of memory for all large requests. connections: the most of them at a time.
    """

    size: int
    patience: Timeouts
    budget: MemoryBudget = field(default_factory=MemoryBudget)
    connections: int = sys.maxsize


class RequestBody:
    """Receives a body, refusing what is beyond the limit though no length was announced."""

    def __init__(self, receive: Receive, bounds: Bounds, context: RequestContext) -> None:
        self._receive, self._bounds, self._context = receive, bounds, context
        self._left = bounds.size

    async def __call__(self) -> Message:
        self._bounds.patience.begin(self)
        message = await self._receive()
        if not message.get("more_body", False):
            self.close()
        size = len(message.get("body", b""))
        self._left -= size
        if self._left < 0:
            raise too_large(self._bounds.size)
        self._context.memory.grow(_COPIES * size)
        return message

    def close(self) -> None:
        """Nothing more is waited for."""
        self._bounds.patience.end(self)

    def expire(self) -> None:
        """Answer without what does not come in time."""
        late = ReceiveTimeout("the body did not come in time; send it at once")
        self._context.abort(late)


class DecompressedBody:
    """The same of a compressed body. What it inflates to is under the limit, as it inflates."""

    def __init__(self, receive: Receive, encoding: bytes, most: int, memory: Reservation) -> None:
        """Raises Unsupported for an encoding that is not known."""
        wbits = _FORMATS.get(encoding.strip().lower())
        if wbits is None:
            raise Unsupported(
                f"content-encoding {encoding.decode('latin-1')!r} is not read; send gzip, deflate, "
                "or the body as it is",
                code="unsupported_encoding",
                header="accept-encoding",
                supported="gzip, deflate",
            )
        self._receive, self._left, self._most, self._memory = receive, most, most, memory
        self._wbits, self._stream = wbits, zlib.decompressobj(wbits)
        self._allowed, self._members = _FREE, _MEMBERS

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request":
            return message
        data = message.get("body", b"")
        body = await run_in_thread(partial(self._inflate, data), len(data) <= _SMALL)
        self._memory.grow(_COPIES * len(body))
        if not message.get("more_body", False) and not self._stream.eof:
            raise _broken("it ends too early")
        return {**message, "body": body}

    def _inflate(self, data: bytes) -> bytes:
        self._allowed += _RATIO * len(data)
        blocks, starts = memoryview(data), range(0, len(data), _BLOCK)
        return b"".join(self._block(blocks[start : start + _BLOCK]) for start in starts)

    def _block(self, data: bytes | memoryview) -> bytes:
        found = []
        while data:
            if self._stream.eof:
                self._stream = self._next()
            found.append(self._member(data))
            data = self._stream.unused_data
        return b"".join(found)

    def _next(self) -> "zlib._Decompress":
        # https://www.rfc-editor.org/rfc/rfc1952#section-2.2
        if self._wbits != _GZIP:
            raise _broken("there is something behind its end")
        self._members -= 1
        if not self._members:
            raise TooLarge(f"the body has more than {_MEMBERS} members", code="too_many_parts")
        return zlib.decompressobj(self._wbits)

    def _member(self, data: bytes | memoryview) -> bytes:
        try:
            # One byte more than there may be tells that there are more.
            found = self._stream.decompress(data, min(self._left, self._allowed) + 1)
        except zlib.error as error:
            raise _broken(str(error)) from None
        self._left -= len(found)
        self._allowed -= len(found)
        if self._left < 0:
            raise too_large(self._most)
        if self._allowed < 0:
            raise TooLarge(
                f"the body inflates to more than {_RATIO} times its size; send it as it is",
                code="body_too_large",
            )
        return found


def too_large(most: int) -> TooLarge:
    """What is told of a body beyond the limit."""
    return TooLarge(f"the body has more than {most} bytes", code="body_too_large")


def _broken(why: str) -> BadRequest:
    return BadRequest(f"the compressed body cannot be read: {why}", code="broken_encoding")
