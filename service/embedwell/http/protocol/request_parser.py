"""Parse the requests of a connection with httptools, within the limit on the size of a head."""

from enum import Enum, auto
from typing import Any, Protocol
from urllib.parse import unquote

import httptools
from starlette.types import Scope

from embedwell.errors import HeadTooLarge, MalformedRequest, UnknownHttpVersion

_MAX_HEAD = 1 << 16  # maximum bytes before a body, or of the lines around its chunks
_TOO_LARGE = f"the URL and headers, or the trailers, have more than {_MAX_HEAD} bytes; shorten them"
_VERSIONS = ("1.1", "1.0")
_ASGI = {"version": "3.0", "spec_version": "2.3"}


class Stage(Enum):
    """The part of a request that has been read last."""

    NOTHING = auto()  # of the next request, except for empty lines
    HEAD = auto()
    BODY = auto()  # including its chunk lines and trailers


_NOTHING, _HEAD, _BODY = Stage  # reading an attribute of an enum is as slow as a call


class RequestBody(Protocol):
    """Takes the body of a request."""

    def add_body(self, body: bytes) -> None:
        """Take the next bytes."""

    def end_body(self) -> None:
        """Take the end of the body, and so of the request."""


class RequestHandler(Protocol):
    """Takes the heads of requests."""

    def start_request(
        self, scope: Scope, keep_alive: bool, expects_continue: bool
    ) -> RequestBody | None:
        """Take a head; return what takes the body, or None if it is ignored.

        scope: ASGI's, without what depends on the connection.
        keep_alive: whether the client may send another request afterwards.
        expects_continue: whether the client waits for status 100 before it sends the body.
        """


class RequestParser:
    """Parses requests, and reports their heads to a handler.

    An offer to change the protocol is declined: the request is parsed without it. Java's client
    offers HTTP/2 in every request. https://www.rfc-editor.org/rfc/rfc9110#section-7.8
    """

    stage = _NOTHING

    def __init__(self, handler: RequestHandler) -> None:
        self.headers: list[tuple[bytes, bytes]] = []  # of an incomplete head
        self._handler = handler
        self._body: RequestBody | None = None  # takes the body of the current request
        self._url = b""
        self._size = 0  # bytes since the latest bytes of a body, or its end
        self._declines = False  # whether the parser stops at an offer of this head
        self._start_parser()

    @property
    def is_incomplete(self) -> bool:
        """Whether a request, or the empty lines before it, have begun."""
        return self._size > 0 or self.stage is not _NOTHING

    def feed(self, data: bytes | memoryview) -> None:
        """Parse more bytes; raises HeadTooLarge, MalformedRequest and UnknownHttpVersion."""
        self._size += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            if len(self._url) >= _MAX_HEAD:  # the parser has a limit of its own for URLs
                raise HeadTooLarge(_TOO_LARGE) from None
            if (version := self._parser.get_http_version()) not in (*_VERSIONS, "0.0"):  # unread
                raise UnknownHttpVersion(
                    f"the server does not speak HTTP/{version}; send the request in HTTP/1.1"
                ) from None
            raise MalformedRequest("the request is not valid HTTP") from None
        if self._size > _MAX_HEAD:
            raise HeadTooLarge(_TOO_LARGE)

    def close(self) -> None:
        """Free the parser, which refers to this object."""
        self._parser: Any = None

    # httptools calls these methods.

    def on_message_begin(self) -> None:
        self.stage, self._url, self.headers = _HEAD, b"", []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser, method = self._parser, self._parser.get_method()
        if parser.get_http_version() not in _VERSIONS:
            raise ValueError("the version is unknown")  # becomes a HttpParserError
        if parser.should_upgrade() and method != b"CONNECT":
            self._declines = True
            return
        url, version = httptools.parse_url(self._url), parser.get_http_version()
        path = url.path.decode("ascii")  # an error becomes a HttpParserError
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": method.decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": self.headers,
        }
        expectation = dict(self.headers).get(b"expect", b"").lower()
        # The parser reports trailers as headers, but they must not become headers:
        # https://www.rfc-editor.org/rfc/rfc9110#section-6.5.1
        self.stage, self.headers = _BODY, []
        is_1_1 = version == "1.1"  # HTTP/1.0 knows neither
        keep_alive = is_1_1 and parser.should_keep_alive()
        expects_continue = is_1_1 and expectation == b"100-continue"
        self._body = self._handler.start_request(scope, keep_alive, expects_continue)

    def on_body(self, body: bytes) -> None:
        self._size = 0
        if self._body is not None:
            self._body.add_body(body)

    def on_message_complete(self) -> None:
        if not self._declines:
            self.stage, self._size, self.headers = _NOTHING, 0, []
            if self._body is not None:
                self._body.end_body()

    def _start_parser(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        # Bytes after a request with `Connection: close` must not replace its response by an error.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _feed(self, data: bytes | memoryview) -> None:
        """Raises HttpParserError."""
        while True:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                # The parser assumes that the protocol changes at the end of this head.
                if not self._declines:
                    return  # CONNECT, whose response is an error
                data = memoryview(data)[offer.args[0] :]
                self._parse_without_offer()

    def _parse_without_offer(self) -> None:
        method, version = self._parser.get_method(), self._parser.get_http_version()
        lines = [b"%s %s HTTP/%s" % (method, self._url, version.encode())]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        self._declines = False
        self._start_parser()  # the old parser may be at its end
        self._parser.feed_data(b"\r\n".join(lines) + b"\r\n\r\n")
