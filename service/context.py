"""What all processes of a server have in common."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Any

import orjson

from service.engine.protocol.fd_handoff import Connection, request_connection
from service.process.shared_counters import SharedCounters
from service.settings import Settings

_FIELDS = ("port", "listener_fds", "counters_fd", "handoff_fd", "started")


@dataclass(frozen=True)
class ServerContext:
    """The settings and shared descriptors of a server.

    model: the folder of the model. port: where the server listens.
    listener_fds: of each HTTP process, the descriptors of its listening sockets.
    counters_fd: of the shared counters. handoff_fd: of the socket on which connections to the
    engine are requested. started: of the server, in seconds since 1970.
    """

    settings: Settings
    model: Path
    port: int
    listener_fds: Sequence[Sequence[int]]
    counters_fd: int
    handoff_fd: int
    started: int = field(default_factory=lambda: int(time.time()))

    def connect_engine(self) -> Connection:
        """Request a connection to the engine; raises OSError, which may be temporary."""
        return request_connection(self.handoff_fd)

    @property
    def rows(self) -> int:
        """Rows of the shared counters: one for each HTTP process, and one for the others."""
        return self.settings.workers + 1

    def counters(self, row: int) -> SharedCounters:
        """The shared counters, for the process of a row."""
        return SharedCounters.attach(self.counters_fd, self.rows, row)

    def listeners(self, row: int) -> list[socket]:
        """The sockets on which the HTTP process of a row listens."""
        return [socket(fileno=number) for number in self.listener_fds[row]]

    def worker_config(self, row: int) -> bytes:
        """The context as the first line of an HTTP process's input, as it holds the API key."""
        key = self.settings.api_key
        settings = self.settings.model_dump(mode="json")
        settings["api_key"] = None if key is None else key.get_secret_value()
        fields = {name: getattr(self, name) for name in _FIELDS}
        return orjson.dumps({"settings": settings, "model": str(self.model), "row": row, **fields})

    @classmethod
    def from_worker_config(cls, config: bytes) -> tuple["ServerContext", int]:
        """Parse the line of worker_config: the context, and the row."""
        fields: dict[str, Any] = orjson.loads(config)
        context = cls(
            Settings(**fields["settings"]),
            Path(fields["model"]),
            **{name: fields[name] for name in _FIELDS},
        )
        return context, fields["row"]
