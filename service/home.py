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
    """A socket that takes connections at a path, whether or not anyone accepts them yet."""
    found = socket.socket(socket.AF_UNIX)
    found.bind(address)
    found.listen()
    return found


def door(host: str, port: int) -> socket.socket:
    """A socket of which each HTTP process has one on the same port; raises OSError.

    The system deals new connections out among them (SO_REUSEPORT).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind((host, port))
    return found


def unused(host: str, port: int) -> int:
    """The port, or one for 0; raises OSError where another program listens on it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as found:
        return int(found.getsockname()[1])
