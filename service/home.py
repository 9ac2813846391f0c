"""Where the processes of one server find each other, and what they are told."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Any

import orjson

from service.board import Board
from service.engine.exchange import ask
from service.settings import Settings

_NUMBERS = ("port", "table", "asking", "started")


@dataclass(frozen=True)
class Home:
    """What every process of a server is told.

    model: the folder of what is served. port: where the server listens.
    table, asking: the descriptors, that all inherit, of the boards and of the engine's exchange.
    started: when the first of the processes was, in seconds since 1970.
    """

    settings: Settings
    model: Path
    port: int
    table: int
    asking: int
    started: int = field(default_factory=lambda: int(time.time()))

    def ask(self) -> socket:
        """A new line to the engine; raises OSError, which may pass."""
        return ask(self.asking)

    def board(self, row: int) -> Board:
        """What the HTTP process of a row counts on."""
        return Board.shared(self.table, self.settings.workers, row)

    def letter(self, row: int) -> bytes:
        """All of this for the HTTP process of a row: for its input, as it has the key."""
        key = self.settings.api_key
        settings = self.settings.model_dump(mode="json")
        settings["api_key"] = None if key is None else key.get_secret_value()
        found = {name: getattr(self, name) for name in _NUMBERS}
        return orjson.dumps({"settings": settings, "model": str(self.model), "row": row, **found})

    @classmethod
    def read(cls, letter: bytes) -> tuple["Home", int]:
        """The way back: and the row."""
        found: dict[str, Any] = orjson.loads(letter)
        home = cls(
            Settings(**found["settings"]),
            Path(found["model"]),
            **{name: found[name] for name in _NUMBERS},
        )
        return home, found["row"]
