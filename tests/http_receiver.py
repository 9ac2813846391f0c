"""An HTTP server in a thread of the test, for the time of a `with` block."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class HttpReceiver:
    """A server whose subclasses choose the status of each response, which has no body.

    host: its address; url: the same for clients.
    """

    def __init__(self, keep_alive: bool) -> None:
        """keep_alive: whether a connection serves several requests; else the end waits for each."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1" if keep_alive else "HTTP/1.0"

            def do_GET(self) -> None:
                self._respond(receiver.get(self.path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self._respond(receiver.post(self.path, body))

            def _respond(self, status: int) -> None:
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = keep_alive
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def get(self, path: str) -> int:
        """Receive a GET, and return the status of its response."""
        return 404

    def post(self, path: str, body: bytes) -> int:
        """Receive a POST, and return the status of its response."""
        return 404
