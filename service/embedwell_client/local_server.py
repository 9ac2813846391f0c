"""The server that all programs of a user share: found, started in the background, and told a model.

Its folder has a socket, the models file, the log, and two files that are locked: `lock` by the
program that starts the server or adds a model, and `server.pid` by the server while it runs.
"""

import sys

if sys.platform == "win32":
    raise ImportError(
        "the local server needs Unix sockets and file locks, which Windows lacks: start `embedwell "
        "serve`, and create the client with its address"
    )

import fcntl
import hashlib
import json
import logging
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import httpx

from embedwell_client import detached
from embedwell_client.errors import RequestFailed

IDLE_EXIT = "15m"
START_TIMEOUT = 900.0  # seconds; the first start with a model may download it
ORPHAN_SECONDS = 10.0  # in which the processes of a server that was killed end
LOG_LINES = 10  # shown if the server does not start
NOT_RELOADED = "the models file was not reloaded"
KEPT_SETTINGS = ("CACHE", "DEVICE", "DTYPE", "ISA", "THREADS")
"""Settings of the environment that the server keeps: those of the machine.

The others may be those of another server, such as a key or a port.
"""

State = Literal["served", "unknown model", "outdated", "silent"]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LocalServer:
    """The server of this user, and one of its models.

    name, source: name under which the model is served, and its name on a hub or its path.
    command: starts the command `embedwell`.
    replaces: whether an idle server of another version is replaced, as the command starts this one.
    """

    name: str
    source: str
    folder: Path
    command: Sequence[str]
    replaces: bool

    @property
    def socket(self) -> Path:
        return self.folder / "server.sock"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def url(self) -> str:
        """The base address of the model, for clients that connect to the socket."""
        return f"http://localhost/m/{quote(self.name)}"

    def connect(self) -> None:
        """Wait until the server serves the model; start the server, or add the model, if needed.

        Raises RequestFailed.
        """
        if self._state() == "served":
            return
        with self._lock():
            self._wait_served()

    def stop(self) -> None:
        """Stop the server, if it runs, and wait until it has ended."""
        with self._lock():
            deadline = time.monotonic() + START_TIMEOUT
            if pid := self.process_id():
                _send(pid, signal.SIGTERM)
            while self.process_id():
                self._pause(deadline)

    def _wait_served(self) -> None:
        begun = time.monotonic()
        deadline = begun + START_TIMEOUT
        started, handled_states = False, set[State]()
        while True:
            pid = self.process_id()
            if (state := self._state()) == "served":
                return
            if pid is None and state == "silent":
                if started:
                    raise self._not_started()
                self._start()
                started = True
            elif pid is None:
                if time.monotonic() > begun + ORPHAN_SECONDS:
                    raise self._not_ours()
            elif state not in handled_states:  # the process takes a while to change it
                handled_states.add(state)
                if state == "outdated":
                    _send(pid, signal.SIGTERM)
                elif state == "unknown model":
                    self._add_model(pid, deadline)
            self._pause(deadline)

    def _state(self) -> State:
        if not self.socket.exists():
            return "silent"
        with httpx.Client(transport=self.transport(), timeout=10) as http:
            try:
                response = http.get(f"{self.url}/info")
                if response.status_code == httpx.codes.NOT_FOUND:
                    return "unknown model"
                if response.is_success and self._is_outdated(http, response.json()["version"]):
                    return "outdated"
            except httpx.TransportError:
                return "silent"
        return "served"

    def _is_outdated(self, http: httpx.Client, served: str) -> bool:
        """Whether to replace the server, of another version; log a warning if it is in use."""
        own = _own_version()
        if own in (None, served):
            return False
        models = http.get("http://localhost/v1/models").json()["data"]
        is_idle = all(model["state"] == "unloaded" for model in models)
        if self.replaces and is_idle and self.process_id():
            return True
        log.warning(
            "the local server is embedwell %s and this client is %s; `embedwell local --stop` "
            "ends the server, and the next request starts this version",
            *(served, own),
        )
        return False

    def _start(self) -> None:
        self._write_models({})
        serve = ["serve", "--models-file", str(self._models_file), "--workers", "1"]
        serve += ["--unix-socket", str(self.socket), "--idle-exit", IDLE_EXIT]
        with open(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
            subprocess.run(
                [
                    *(sys.executable, "-I", detached.__file__, str(self._pid_file)),
                    *(*self.command, *serve),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,  # which has no .env
                env=server_environment(),
                start_new_session=True,
                check=True,
            )

    def _add_model(self, pid: int, deadline: float) -> None:
        """Add the model to the file, and wait until the server has reloaded it."""
        before, logged = self._models_file.read_text(encoding="utf-8"), self.log.stat().st_size
        self._write_models(tomllib.loads(before))
        _send(pid, signal.SIGHUP)
        while self._state() == "unknown model" and self.process_id() == pid:
            new_lines = self.log.read_bytes()[logged:].decode(errors="replace").splitlines()
            for line in new_lines:
                if NOT_RELOADED in line:
                    self._models_file.write_text(before, encoding="utf-8")
                    raise _failed(f"the local server cannot serve {self.name}: {line}")
            self._pause(deadline)

    def _write_models(self, models: dict[str, dict[str, str]]) -> None:
        """Write the models file: this model, and the others except for folders that are gone."""
        kept = {
            name: options["source"]
            for name, options in models.items()
            if os.path.exists(options["source"]) or not os.path.isabs(options["source"])
        }
        tables = [
            f"[{_toml(name)}]\nsource = {_toml(source)}\nkeep = 'on_demand'\n"
            for name, source in {**kept, self.name: self.source}.items()
        ]
        written = self.folder / "models.toml.new"
        written.write_text("\n".join(tables), encoding="utf-8")
        written.replace(self._models_file)

    def process_id(self) -> int | None:
        """Return the process id of the server; None if it does not run, or runs otherwise."""
        with suppress(FileNotFoundError), self._pid_file.open(encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0) or None
            fcntl.flock(file, fcntl.LOCK_UN)  # a forked process may have the file, too
        return None

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Let one program at a time start the server or change its models."""
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)

    def _pause(self, deadline: float) -> None:
        """Wait a moment; raises RequestFailed after the deadline."""
        if time.monotonic() > deadline:
            raise _failed(
                f"the local server, process {self.process_id()}, does not respond at "
                f"{self.socket}; see {self.log}"
            )
        time.sleep(0.05)

    def _not_started(self) -> RequestFailed:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        shown = "\n".join(lines[-LOG_LINES:]).strip()
        return _failed(f"the local server did not start; the end of {self.log}:\n{shown}")

    def _not_ours(self) -> RequestFailed:
        return _failed(
            f"the server at {self.socket} does not serve {self.name}, and was not started by "
            "Client.local; add the model to its settings, or stop it"
        )

    @property
    def _models_file(self) -> Path:
        return self.folder / "models.toml"

    @property
    def _pid_file(self) -> Path:
        return self.folder / "server.pid"

    def transport(self) -> httpx.HTTPTransport:
        """Return a transport to the socket; without TLS, whose certificates are slow to load."""
        return httpx.HTTPTransport(uds=str(self.socket), verify=False)

    def async_transport(self) -> httpx.AsyncHTTPTransport:
        """Return the same for an asyncio client."""
        return httpx.AsyncHTTPTransport(uds=str(self.socket), verify=False)


def local_server(model: str) -> LocalServer:
    """Return the user's server with a model: a folder, a file or a name. Raises RequestFailed."""
    name = source = model
    if (path := Path(model)).exists():
        source = str(path.resolve())
        name = f"{path.resolve().name}-{hashlib.sha256(source.encode()).hexdigest()[:8]}"
    if find_spec("embedwell"):
        return LocalServer(
            name, source, runtime_folder(), (sys.executable, "-m", "embedwell"), True
        )
    if program := shutil.which("embedwell"):
        return LocalServer(name, source, runtime_folder(), (program,), False)
    raise _failed("the local server needs the command embedwell, which is not installed")


def runtime_folder() -> Path:
    """Create the folder of the server, which only this user can open. Raises RequestFailed."""
    base = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    folder = base / "embedwell"
    if not base.is_absolute() or not base.is_dir() or base.stat().st_uid != os.getuid():
        folder = Path(tempfile.gettempdir()) / f"embedwell-{os.getuid()}"
    with suppress(FileExistsError):  # also if it is a link to nothing
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise _failed(f"{folder} must be a folder that only this user can open; remove it")
    return folder


def server_environment() -> dict[str, str]:
    """Return the environment of the server, which runs in another folder than this program."""
    kept = {f"EMBEDWELL_{name}" for name in KEPT_SETTINGS}
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("EMBEDWELL_") or name in kept
    }
    if cache := environment.get("EMBEDWELL_CACHE"):
        environment["EMBEDWELL_CACHE"] = str(Path(cache).expanduser().absolute())
    return environment


def _own_version() -> str | None:
    for distribution in ("embedwell", "embedwell-client"):
        with suppress(PackageNotFoundError):
            return version(distribution)
    return None  # sources without an installation


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, number)


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _failed(message: str) -> RequestFailed:
    return RequestFailed(None, "local_server", message)
