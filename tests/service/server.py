"""A real server process for the tests, on a free port."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import psutil

CAP = os.environ.get("EMBEDDING_ISA") or "auto"
"""The highest instruction set that the tests use, servers and libraries alike."""

_LISTENS = re.compile(r"listens on (http://\S+)")


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The content of an error in whichever shape it has, with its message under that name."""
    content = response.json()
    error = content.get("error")
    return error if isinstance(error, dict) else {"message": error, **content}


class HttpServer:
    """A server as its clients see it. client: of httpx, with the server's address."""

    url: str
    client: httpx.Client

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        return self.client.post(path, json=body, headers=headers)


class Server(HttpServer):
    """`embedding-service serve` with settings; ready when entered, stopped when left.

    In float32 unless told otherwise: what `auto` chooses depends on the machine. A slow or busy one
    refuses no request for that: `max_wait` is long.
    """

    def __init__(self, log: Path, port: int = 0, **settings: object) -> None:
        self._log, self._port = log, port
        settings = {"dtype": "float32", "isa": CAP, "max_wait": 60} | settings
        self._environment = {
            **{name: value for name, value in os.environ.items() if "EMBEDDING_" not in name},
            **{f"EMBEDDING_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.url = ""

    def __enter__(self) -> "Server":
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service", "serve", "--port", str(self._port)],
                stdout=log,
                stderr=log,
                env=self._environment,
            )
        found = None
        deadline = time.monotonic() + 300
        while found is None:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log
            time.sleep(0.02)
            found = _LISTENS.search(self.log)
        self.url = found.group(1)
        self.client = httpx.Client(base_url=self.url, timeout=120)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self.stop()

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def engine(self) -> int:
        """The process id of the engine."""
        deadline = time.monotonic() + 60
        while True:  # another may just be forked
            [launcher] = self.children("service.engine")
            with contextlib.suppress(ValueError):
                [(engine, _)] = _alive(launcher)
                return engine.pid
            assert time.monotonic() < deadline, self.log
            time.sleep(0.01)

    def children(self, module: str) -> list[psutil.Process]:
        """The processes that the server has started to run a module."""
        found = _alive(psutil.Process(self.process.pid))
        return [child for child, command in found if command[1:] == ["-P", "-m", module]]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit status after a polite request to stop."""
        self.process.send_signal(number)
        return self.process.wait(120)

    def wait_ready(self, seconds: float = 60) -> None:
        """Fails when the server is not ready in that time."""
        deadline = time.monotonic() + seconds
        while self.client.get("/ready").status_code != 200:
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)


def _alive(parent: psutil.Process) -> list[tuple[psutil.Process, list[str]]]:
    """The children of a process that have not ended, with their command lines."""
    found = []
    for child in parent.children():
        with contextlib.suppress(psutil.Error):
            found.append((child, child.cmdline()))
    return found
