"""Settings and shared descriptors of a server's processes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Any

import orjson

from embedwell.engine.wire.engine_sockets import Connection, request_connection
from embedwell.engine.wire.shared_counters import SharedCounters
from embedwell.settings.settings import Settings

_FIELDS = ("port", "listener_fds", "started")
_MODEL_FIELDS = ("index", "rows", "counters_fd", "connect_fd")
_SECRETS = ("api_key", "admin_key")


@dataclass(frozen=True)
class InheritedModel:
    """The settings and shared descriptors of one of a server's models.

    settings: the server's, with the model's source, name and options.
    index: position among the models.
    rows: number of rows of the counters.
    counters_fd: descriptor of the model's shared counters.
    connect_fd: descriptor of the socket on which connections to its engine are requested.
    """

    settings: Settings
    folder: Path
    index: int
    rows: int
    counters_fd: int
    connect_fd: int

    def connect_engine(self) -> Connection:
        """Request a connection to the engine; raises OSError, which may be temporary."""
        return request_connection(self.connect_fd)

    def counters(self, row: int) -> SharedCounters:
        """Open the model's shared counters for the process of a row."""
        return SharedCounters.attach(self.counters_fd, self.rows, row)


@dataclass(frozen=True)
class InheritedServer:
    """The settings and shared descriptors of a server.

    models: the served models, the default model first.
    port: port on which the server listens.
    listener_fds: for each HTTP process, the descriptors of its listening sockets.
    started: start time of the server, in seconds since 1970.
    """

    settings: Settings
    models: Sequence[InheritedModel]
    port: int
    listener_fds: Sequence[Sequence[int]]
    started: int = field(default_factory=lambda: int(time.time()))

    @property
    def rows(self) -> int:
        """Number of rows of the shared counters: one for each HTTP process, and a common one."""
        return counter_rows(self.settings)

    def counters(self, row: int) -> SharedCounters:
        """Open the server's shared counters, its first model's, for the process of a row."""
        return self.models[0].counters(row)

    def listeners(self, row: int) -> list[socket]:
        """Open the sockets on which the HTTP process of a row listens."""
        return [socket(fileno=number) for number in self.listener_fds[row]]

    def pass_fds(self, row: int) -> list[int]:
        """Return the descriptors that the HTTP process of a row inherits."""
        of_models = [fd for model in self.models for fd in (model.counters_fd, model.connect_fd)]
        return [*self.listener_fds[row], *of_models]

    def worker_config(self, row: int) -> bytes:
        """Serialise the context for an HTTP process's standard input, as it holds the API key."""
        models = [
            {
                "settings": _dump(model.settings),
                "folder": str(model.folder),
                **{name: getattr(model, name) for name in _MODEL_FIELDS},
            }
            for model in self.models
        ]
        fields = {name: getattr(self, name) for name in _FIELDS}
        settings = _dump(self.settings)
        return orjson.dumps({"settings": settings, "models": models, "row": row, **fields})

    @classmethod
    def from_worker_config(cls, config: bytes) -> tuple["InheritedServer", int]:
        """Parse the line of worker_config: the context, and the row."""
        fields: dict[str, Any] = orjson.loads(config)
        context = cls(
            Settings(**fields["settings"]),
            [_model_context(model) for model in fields["models"]],
            **{name: fields[name] for name in _FIELDS},
        )
        return context, fields["row"]


def counter_rows(settings: Settings) -> int:
    """Return the number of rows of the shared counters of a server with these settings."""
    return settings.workers + 1


def _dump(settings: Settings) -> dict[str, Any]:
    dumped = settings.model_dump(mode="json")
    for name in _SECRETS:
        key = getattr(settings, name)
        dumped[name] = None if key is None else key.get_secret_value()
    return dumped


def _model_context(fields: Mapping[str, Any]) -> InheritedModel:
    numbers = {name: fields[name] for name in _MODEL_FIELDS}
    return InheritedModel(Settings(**fields["settings"]), Path(fields["folder"]), **numbers)
