"""Where the processes of one server find each other, and what they are told."""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from service.board import Board
from service.settings import Settings


@dataclass(frozen=True)
class Home:
    """folder: of this server alone. model: the folder of what it serves. port: it listens on."""

    settings: Settings
    model: Path
    folder: Path
    port: int

    @property
    def address(self) -> str:
        """The socket where the engine takes lines."""
        return str(self.folder / "engine")

    def board(self, row: int) -> Board:
        """What the HTTP process of a row counts on."""
        return Board.shared(self.folder / "board", self.settings.workers, row)

    def letter(self, row: int) -> bytes:
        """All of this for the HTTP process of a row: for its input, as it has the key."""
        key = self.settings.api_key
        settings = self.settings.model_dump(mode="json")
        settings["api_key"] = None if key is None else key.get_secret_value()
        found = {"settings": settings, "model": str(self.model), "folder": str(self.folder)}
        return orjson.dumps({**found, "port": self.port, "row": row})

    @classmethod
    def read(cls, letter: bytes) -> tuple["Home", int]:
        """The way back: and the row."""
        found: dict[str, Any] = orjson.loads(letter)
        settings = Settings(**found["settings"])
        paths = Path(found["model"]), Path(found["folder"])
        return cls(settings, *paths, found["port"]), found["row"]


def listener(address: str) -> socket.socket:
    """A socket that takes connections at a path, whether or not anyone accepts them yet.

    Raises OSError for a path that is too long or cannot be written.
    """
    found = socket.socket(socket.AF_UNIX)
    try:
        found.bind(address)
    except OSError as error:
        found.close()
        raise OSError(
            f"no socket can be made at {address}: {error}; set TMPDIR to a short path"
        ) from None
    found.listen()
    return found


def claim(host: str, port: int) -> socket.socket:
    """The first door of a server: on a port that no other one has, any for 0; raises OSError."""
    try:
        found = socket.create_server((host, port), family=_family(host))
    except OSError as error:
        raise OSError(f"cannot listen on {host} port {port}: {error}") from None
    # Only now: with a door's own option it would share the port with another server.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return found


def door(host: str, port: int) -> socket.socket:
    """A socket of which each HTTP process has one on the same port; raises OSError.

    The system deals new connections out among them (SO_REUSEPORT).
    """
    return socket.create_server((host, port), family=_family(host), reuse_port=True)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
