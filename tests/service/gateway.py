"""A gateway that misbehaves as it is told, and else passes on what it is asked."""

import contextlib
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

import httpx

_HOP = {"connection", "transfer-encoding", "content-encoding", "date", "server"}


@dataclass(frozen=True)
class Answer:
    """Said in place of the server."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Fault = Answer | float | None
"""An answer of its own, seconds of delay, or the connection cut off."""


def passed(response: httpx.Response) -> Answer:
    """The server's own answer."""
    headers = {name: value for name, value in response.headers.items() if name not in _HOP}
    return Answer(response.status_code, response.content, headers)


class Gateway:
    """Before a server's URL. faults: of the next POSTs, in order. bodies: of every POST.

    most: how many POSTs were under way at a time.
    """

    def __init__(self, url: str) -> None:
        self.faults: list[Fault] = []
        self.bodies: list[bytes] = []
        self.most = self._under_way = 0
        outer, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._say(passed(httpx.get(url + self.path, headers=dict(self.headers))))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.bodies.append(body)
                fault = outer.faults.pop(0) if outer.faults else 0.0
                answer: Answer | None
                with lock:
                    outer._under_way += 1
                    outer.most = max(outer.most, outer._under_way)
                if isinstance(fault, float):
                    time.sleep(fault)
                    headers = dict(self.headers)
                    answer = passed(httpx.post(url + self.path, content=body, headers=headers))
                else:
                    answer = fault
                with lock:  # before the client has the answer, and sends the next
                    outer._under_way -= 1
                if answer is not None:
                    self._say(answer)

            def _say(self, answer: Answer) -> None:
                with contextlib.suppress(ConnectionError):  # the client may have left
                    self.send_response(answer.status)
                    headers = {**answer.headers, "content-length": str(len(answer.body))}
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False  # closing waits for what is under way
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Gateway":
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
