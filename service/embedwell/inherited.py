"""Settings and shared descriptors of a server's processes."""

import pickle
import time
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket

from embedwell.engine.wire.engine_sockets import EngineSocket, request_connection
from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.settings.settings import Settings


@dataclass(frozen=True)
class InheritedModel:
    """The settings and shared descriptors of one of a server's models and of its engine.

    A model that is on several devices has one of these for each device.

    settings: the server's, with the model's source, name and options, and the device.
    index: position among the models, or among the devices of the only one.
    rows: number of rows of the counters.
    counters_fd: descriptor of the shared counters.
    connect_fd: descriptor of the socket on which connections to its engine are requested.
    cpus: processors that the engine is bound to; empty if it may use all of the server's.
    """

    settings: Settings
    folder: Path
    index: int
    rows: int
    counters_fd: int
    connect_fd: int
    cpus: Sequence[int] = ()

    @property
    def label(self) -> str:
        """The model's name, with the device if there are several."""
        names = self.settings.engine_names
        return f"{self.settings.name} on {names[self.index]}" if names else self.settings.name

    def connect_engine(self) -> EngineSocket:
        """Request a connection to the engine; raises OSError, which may be temporary."""
        return request_connection(self.connect_fd)

    def counters(self, row: int) -> SharedCounters:
        """Open the model's shared counters for the process of a row."""
        return SharedCounters.attach(self.counters_fd, self.rows, row)


@dataclass(frozen=True)
class InheritedServer:
    """The settings and shared descriptors of a server.

    models: the served models, the default model first; or the devices of the only model.
    port: port on which the server listens; 0 if it listens on Unix sockets alone.
    listener_fds: for each HTTP process, the descriptors of its listening sockets.
    started: start time of the server, in seconds since 1970.
    handed_over: whether the sockets are systemd's or launchd's, and stay open for the next start.
    """

    settings: Settings
    models: Sequence[InheritedModel]
    port: int
    listener_fds: Sequence[Sequence[int]]
    started: int = field(default_factory=lambda: int(time.time()))
    handed_over: bool = False

    def counters(self, row: int) -> SharedCounters:
        """Open the server's shared counters, its first model's, for the process of a row."""
        return self.models[0].counters(row)

    def listeners(self, row: int) -> list[socket]:
        """Open the sockets on which the HTTP process of a row listens."""
        return [socket(fileno=number) for number in self.listener_fds[row]]

    def pass_fds(self, row: int) -> list[int]:
        """Return the descriptors that the HTTP process of a row inherits."""
        model_fds = [fd for model in self.models for fd in (model.counters_fd, model.connect_fd)]
        return [*self.listener_fds[row], *model_fds]

    def worker_config(self, row: int) -> bytes:
        """Serialise the context for an HTTP process's standard input, as it holds the API key."""
        return b64encode(pickle.dumps((self, row)))

    @classmethod
    def from_worker_config(cls, line: bytes) -> tuple["InheritedServer", int]:
        """Return the context and the row of worker_config."""
        config: tuple[InheritedServer, int] = pickle.loads(b64decode(line))  # noqa: S301 - own
        return config


def counter_rows(settings: Settings) -> int:
    """Return the rows of the shared counters: one for each HTTP process, and a common one."""
    return settings.workers + 1
