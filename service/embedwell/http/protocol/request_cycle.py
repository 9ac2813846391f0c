"""One request and its response: ASGI's receive and send."""

import asyncio
import logging
from collections.abc import Iterable
from email.utils import formatdate
from functools import lru_cache
from http.client import responses
from typing import Protocol
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Scope

log = logging.getLogger(__name__)
access_log = logging.getLogger("embedwell.access")

Header = tuple[bytes, bytes]

_EMPTY = [(b"content-length", b"0"), (b"connection", b"close")]


class Output(Protocol):
    """The connection, as far as a response needs it."""

    write_paused: bool
    """Whether the client has not read what was written last."""

    @property
    def default_headers(self) -> list[Header]:
        """Headers of every response."""

    @property
    def is_closing(self) -> bool:
        """Whether nothing more can be written."""

    def write(self, parts: list[bytes]) -> None:
        """Send bytes in one call; do nothing on a closed connection."""

    async def drain(self) -> None:
        """Wait until the client has read what was written."""

    def close(self) -> None:
        """Close the connection once everything is written."""

    def continue_reading(self) -> None:
        """Read on, after the application has taken a part of the body."""

    def end_response(self) -> None:
        """Continue with the next request."""


class RequestCycle:
    """A request whose body arrives in parts, and its response.

    The head of a response is written together with the first part of its body, as ASGI demands. So
    most responses take a single write.
    """

    def __init__(
        self, output: Output, scope: Scope, keep_alive: bool, expects_continue: bool
    ) -> None:
        self.scope, self.keep_alive = scope, keep_alive
        self.body, self.more_body, self.disconnected = bytearray(), True, False
        self.response_started = self.response_complete = False
        self._output, self._expects_continue = output, expects_continue
        self._has_message = False  # whether the application has not received the latest bytes
        self._changed: asyncio.Event | None = None  # exists while the application waits
        self._head = b""  # until it is written
        self._chunked = self._has_body = False
        self._remaining: int | None = None  # bytes of the body; None if its length is unknown

    def add_body(self, body: bytes) -> None:
        """Add bytes to the body, unless the response is complete without them."""
        if not self.response_complete:
            self.body += body
            self._notify()

    def end_body(self) -> None:
        """Record that the body is complete."""
        self.more_body = False
        self._notify()

    def disconnect(self) -> None:
        """Record that the client is gone."""
        self.disconnected = True
        self._notify()

    async def run(self, app: ASGIApp) -> None:
        """Let the application respond; without a complete response, close the connection."""
        try:
            await app(self.scope, self.receive, self.send)
            if not self.response_complete and not self.disconnected:
                log.error("the application returned without a complete response")
        except Exception:
            log.exception("the application failed")
        finally:
            if not self.response_complete and not self.disconnected:
                self._fail()

    async def receive(self) -> Message:
        """ASGI's receive."""
        if self._expects_continue and self.more_body and not self._output.is_closing:
            self._output.write([b"HTTP/1.1 100 Continue\r\n\r\n"])
        self._expects_continue = False
        while not (self._has_message or self.disconnected or self.response_complete):
            self._changed = self._changed or asyncio.Event()
            await self._changed.wait()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        self._has_message, self._changed = False, None
        message = {"type": "http.request", "body": bytes(self.body), "more_body": self.more_body}
        if message["body"]:
            self.body = bytearray()
            self._output.continue_reading()
        return message

    async def send(self, message: Message) -> None:
        """ASGI's send; raises RuntimeError for a message that HTTP does not allow."""
        if self._output.write_paused and not self.disconnected:
            await self._output.drain()
        if self.disconnected:
            return
        expected = "http.response.body" if self.response_started else "http.response.start"
        if self.response_complete or message["type"] != expected:
            raise RuntimeError(f"unexpected ASGI message {message['type']}")
        if self.response_started:
            self._send_body(message.get("body", b""), message.get("more_body", False))
        else:
            self._start(message["status"], message.get("headers", ()))

    def _start(self, status: int, headers: Iterable[Header]) -> None:
        lines, scope = [*self._output.default_headers, *headers], self.scope
        names = dict(lines)
        if self._expects_continue and self.more_body:
            # Without status 100 the client may or may not send the body:
            # https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
            self.keep_alive = False
        if b"close" in names.get(b"connection", b"").lower():
            self.keep_alive = False
        self._has_body = scope["method"] != "HEAD" and status not in (204, 304)
        if b"content-length" in names:
            self._remaining = int(names[b"content-length"])
        elif self._has_body and scope["http_version"] == "1.1":
            self._chunked = True
            lines.append((b"transfer-encoding", b"chunked"))
        elif self._has_body:
            self.keep_alive = False  # the end of the connection ends the body
        if not self.keep_alive and b"connection" not in names:
            lines.append((b"connection", b"close"))
        self._head = encode_head(status, lines)
        self.response_started = True
        if access_log.isEnabledFor(logging.DEBUG):
            self._log(status)

    def _send_body(self, body: bytes, more_body: bool) -> None:
        parts = self._encode(body, more_body) if self._has_body else []
        if self._head:
            parts, self._head = [self._head, *parts], b""
        if parts:
            self._output.write(parts)
        if not more_body:
            self._complete()

    def _encode(self, body: bytes, more_body: bool) -> list[bytes]:
        if self._chunked:
            chunk = [b"%x\r\n" % len(body), body, b"\r\n"] if body else []
            return chunk if more_body else [*chunk, b"0\r\n\r\n"]
        if self._remaining is not None:
            self._remaining -= len(body)
            if self._remaining < 0 or (self._remaining and not more_body):
                raise RuntimeError("the body of the response differs from its Content-Length")
        return [body] if body else []

    def _complete(self) -> None:
        self.response_complete = True
        self._notify()
        if not self.keep_alive:
            self._output.close()
        self._output.end_response()

    def _fail(self) -> None:
        """Respond with an error unless a part of the response was written."""
        if not self.response_started or self._head:
            self._output.write([encode_head(500, [*self._output.default_headers, *_EMPTY])])
        self.keep_alive = False
        self._complete()

    def _notify(self) -> None:
        self._has_message = True
        if self._changed is not None:
            self._changed.set()

    def _log(self, status: int) -> None:
        scope = self.scope
        path = quote(scope["path"]) + ("?" if scope["query_string"] else "")
        access_log.debug(
            '%s - "%s %s%s HTTP/%s" %d',
            ":".join(map(str, scope["client"] or ("unix",))),
            *(scope["method"], path, scope["query_string"].decode("ascii")),
            *(scope["http_version"], status),
        )


def encode_head(status: int, headers: list[Header]) -> bytes:
    """Encode the head of a response; raises RuntimeError for a header that has a line break."""
    head = b"\r\n".join([_status_line(status), *map(b": ".join, headers), b"", b""])
    if not head.count(b"\r") == head.count(b"\n") == len(headers) + 2 or b"\0" in head:
        raise RuntimeError("a header of the response has a line break")
    return head


@lru_cache(maxsize=1)
def date_headers(second: int) -> list[Header]:
    """Return the header with the time, in seconds since 1970."""
    return [(b"date", formatdate(second, usegmt=True).encode())]


@lru_cache
def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {responses.get(status, '')}".encode()
