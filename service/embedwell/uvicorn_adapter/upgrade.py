"""Decline upgrades to another protocol: https://www.rfc-editor.org/rfc/rfc9110#section-7.8"""

from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class UpgradeDeclining(HttpToolsProtocol):
    """uvicorn's connection, which serves a request with an upgrade offer like any other.

    Java's client offers HTTP/2 in every request.
    """

    def parse(self, data: bytes | memoryview) -> None:
        """Raises HttpParserError."""
        while True:
            try:
                self.parser.feed_data(data)
                return
            except HttpParserUpgrade as offer:
                # The parser assumes that the protocol changes at the end of this head.
                if not self._should_upgrade():
                    return
                data = memoryview(data)[offer.args[0] :]
                self._decline()

    def _should_upgrade(self) -> bool:
        """Whether uvicorn hands a request with an upgrade offer to another protocol."""
        return bool(self.parser.get_method() != b"CONNECT")

    def _decline(self) -> None:
        method, version = self.parser.get_method(), self.parser.get_http_version()
        headers = [header for header in self.scope["headers"] if header[0] != b"upgrade"]
        lines = [b"%s %s HTTP/%s" % (method, self.url, version.encode())]
        lines += [b"%s: %s" % header for header in headers]
        self.parser = HttpRequestParser(self)  # the old parser may be at its end
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as in uvicorn
        self.parser.feed_data(b"\r\n".join(lines) + b"\r\n\r\n")
