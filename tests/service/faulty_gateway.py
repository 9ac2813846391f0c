"""A reverse proxy that forwards requests, with faults that a test chooses."""

import contextlib
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

import httpx

_HOP_BY_HOP = {"connection", "transfer-encoding", "content-encoding", "date", "server"}


@dataclass(frozen=True)
class GatewayResponse:
    """A response of the gateway itself."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Fault = GatewayResponse | float | None
"""A response of its own, a delay in seconds, or None to close the connection."""


def forwarded(response: httpx.Response) -> GatewayResponse:
    """The server's response without hop-by-hop headers."""
    headers = {name: value for name, value in response.headers.items() if name not in _HOP_BY_HOP}
    return GatewayResponse(response.status_code, response.content, headers)


class FaultyGateway:
    """A gateway in front of a server's URL.

    faults: those of the next POSTs, in order. bodies: the bodies of all POSTs so far.
    max_concurrent: the largest number of POSTs at a time.
    """

    def __init__(self, url: str) -> None:
        self.faults: list[Fault] = []
        self.bodies: list[bytes] = []
        self.max_concurrent = self._concurrent = 0
        gateway, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(
                    forwarded(httpx.get(url + self.path, headers=dict(self.headers), timeout=120))
                )

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                gateway.bodies.append(body)
                fault = gateway.faults.pop(0) if gateway.faults else 0.0
                response: GatewayResponse | None
                with lock:
                    gateway._concurrent += 1
                    gateway.max_concurrent = max(gateway.max_concurrent, gateway._concurrent)
                if isinstance(fault, float):
                    time.sleep(fault)
                    headers = dict(self.headers)
                    response = forwarded(
                        httpx.post(url + self.path, content=body, headers=headers, timeout=120)
                    )
                else:
                    response = fault
                with lock:  # before the client receives the response and sends the next request
                    gateway._concurrent -= 1
                if response is not None:
                    self._send(response)

            def _send(self, response: GatewayResponse) -> None:
                with contextlib.suppress(ConnectionError):  # the client may have disconnected
                    self.send_response(response.status)
                    headers = {**response.headers, "content-length": str(len(response.body))}
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(response.body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False  # closing waits for running requests
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "FaultyGateway":
        threading.Thread(target=self._server.serve_forever, args=(0.01,)).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
