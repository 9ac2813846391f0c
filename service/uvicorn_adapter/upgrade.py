"""Offers to speak another protocol: https://www.rfc-editor.org/rfc/rfc9110#section-7.8"""

from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Declining(HttpToolsProtocol):
    """uvicorn's connection for which a request with an offer is a request like any.

    Java's client makes one in every request.
    """

    def parse(self, data: bytes | memoryview) -> None:
        """Raises HttpParserError."""
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
        """What uvicorn asks of an offer; it leaves a request alone of which this is true."""
        return bool(self.parser.get_method() != b"CONNECT")

    def _decline(self) -> None:
        method, version = self.parser.get_method(), self.parser.get_http_version()
        kept = [header for header in self.scope["headers"] if header[0] != b"upgrade"]
        lines = [b"%s %s HTTP/%s" % (method, self.url, version.encode())]
        lines += [b"%s: %s" % header for header in kept]
        self.parser = HttpRequestParser(self)  # the old one may be at its end
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        self.parser.feed_data(b"\r\n".join(lines) + b"\r\n\r\n")
