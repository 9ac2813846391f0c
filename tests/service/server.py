"""Real server processes for the tests, on free ports."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

from embedwell.launch.supervised import ENGINE

MAX_ISA = os.environ.get("EMBEDWELL_ISA") or "auto"
"""The highest instruction set that the tests use, servers and libraries alike."""


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error object of a response of any API, with the text under `message`."""
    content = response.json()
    error = content.get("error")
    if isinstance(error, dict):
        return error
    return {"message": content.get("detail") if error is None else error, **content}


class HttpServer:
    """The address of a server, and an httpx client for it."""

    url: str
    client: httpx.Client

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        return self.client.post(path, json=body, headers=headers)

    def new_client(self) -> httpx.Client:
        """Create one more client, with connections of its own."""
        # Reading the authorities of certificates would take most of its time.
        return httpx.Client(base_url=self.url, timeout=120, verify=False)


class Server(HttpServer):
    """`embedwell serve` in a process, for the time of a `with` block.

    The defaults give the same results on any machine: float32, as the choice of `auto` depends on
    the processor, a `max_wait` so long that a slow or busy machine refuses no request, and one HTTP
    process.
    A start uses nothing that another test has measured.
    """

    listens = re.compile(r'listens on (http://[^\s"\\]+)')
    """The line of the log that names the address."""

    def __init__(self, log: Path, port: int = 0, **settings: object) -> None:
        self._log, self._port = log, port
        defaults = {"dtype": "float32", "isa": MAX_ISA, "max_wait": 60, "startup_cache": False}
        defaults |= {"workers": 1}
        settings = defaults | settings
        self._environment = {
            **{name: value for name, value in os.environ.items() if "EMBEDWELL_" not in name},
            **{f"EMBEDWELL_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.url = ""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "embedwell", "serve", "--port", str(self._port)]

    def launch(self) -> None:
        """Start the process, without waiting for it."""
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=self._environment
            )

    def __enter__(self) -> Self:
        self.launch()
        match = None
        deadline = time.monotonic() + 300
        while match is None:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log
            time.sleep(0.02)
            match = self.listens.search(self.log)
        self.connect(match.group(1))
        return self

    def connect(self, address: str) -> None:
        """Create a client of the server."""
        self.url = address
        self.client = self.new_client()

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
        while True:  # a restarted engine may not be forked yet
            with contextlib.suppress(ValueError, psutil.Error):
                [engine] = self.children(ENGINE)
                return engine.pid
            assert time.monotonic() < deadline, self.log
            time.sleep(0.01)

    def children(self, name: str) -> list[psutil.Process]:
        """The child processes of a name."""
        children = []
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):  # it has ended
                if child.name() == name:
                    children.append(child)
        return children

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to stop, and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(120)

    def wait_until(self, condition: Callable[[], object], seconds: float = 60) -> None:
        """Wait until the condition holds; fail with the log if it does not in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    def wait_ready(self, seconds: float = 60) -> None:
        self.wait_until(lambda: self.client.get("/ready").status_code == 200, seconds)


class UnixServer(Server):
    """`embedwell serve` on a Unix socket alone."""

    listens = re.compile(r'listens on the Unix socket ([^\s"\\]+)')

    def __init__(self, log: Path, socket: Path, **settings: Any) -> None:
        super().__init__(log, **{"unix_socket": socket, **settings})
        self.socket = socket

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "embedwell", "serve"]

    def connect(self, address: str) -> None:
        assert Path(address) == self.socket
        self.url = "http://localhost"
        self.client = self.new_client()

    def new_client(self) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=str(self.socket), verify=False)
        return httpx.Client(transport=transport, base_url=self.url, timeout=120)


Options = Mapping[str, object]


class SeveralModels(Server):
    """`embedwell serve` with a file of models: their options by their names."""

    def __init__(self, folder: Path, models: Mapping[str, Options], **settings: Any) -> None:
        """folder: for the log and the file of the models."""
        self._file = folder / "models.toml"
        self.write(models)
        super().__init__(folder / "log", models_file=self._file, **settings)

    def write(self, models: Mapping[str, Options]) -> None:
        """Write the file of the models."""
        lines = []
        for name, options in models.items():
            lines += [f'["{name}"]', *(f"{key} = {json.dumps(options[key])}" for key in options)]
        self._file.write_text("\n".join(lines), encoding="utf-8")

    def state(self, name: str) -> str:
        """Return the state of a model: loaded, loading or unloaded."""
        state: str = self.client.get(f"/v1/models/{name}").json()["state"]
        return state

    def engines(self) -> set[int]:
        """Return the process ids of the engines."""
        return {engine.pid for engine in self.children(ENGINE)}

    def load(self, name: str) -> int:
        """Load a model that is not loaded by a request, and return the process id of its engine."""
        before = self.engines()
        assert self.post("/tokens", {"inputs": "red", "model": name}).status_code == 200, self.log
        [engine] = self.engines() - before
        return engine


def wait_ready(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until /ready says yes; fails with the log when the program ends, or after 300 s."""
    deadline = time.monotonic() + 300
    while True:
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        try:
            if client.get("/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
