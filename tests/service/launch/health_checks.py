"""Clients that send health checks over a Unix socket as fast as they can."""

import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import Self

_REQUEST = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
_OK = b"HTTP/1.1 200"
_CLIENTS = 4


class HealthChecks:
    """Sends checks, each over a connection of its own, until the end of a `with` block.

    served: number of those that got a response.
    failed: whether a client that had connected got none.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._ended = path, threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(_CLIENTS)]
        self.served, self.failed = 0, False

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Wait for the responses to the latest checks, and send no more."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            with closing(socket.socket(socket.AF_UNIX)) as client:
                try:
                    client.connect(str(self._path))
                except OSError:  # the server has ended
                    return
                self._check(client)

    def _check(self, client: socket.socket) -> None:
        client.settimeout(120)
        try:
            client.sendall(_REQUEST)
            is_ok = client.recv(len(_OK)) == _OK
        except OSError:
            is_ok = False
        self.served += is_ok
        self.failed |= not is_ok
