"""Where the processes of one server find each other, and what they are told."""

from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

import orjson

from service.board import Board
from service.engine.exchange import ask
from service.settings import Settings


@dataclass(frozen=True)
class Home:
    """model: the folder of what is served. port: where the server listens.

    table, asking: the descriptors, that all inherit, of the boards and of the engine's exchange.
    """

    settings: Settings
    model: Path
    port: int
    table: int
    asking: int

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
        found = {"port": self.port, "table": self.table, "asking": self.asking, "row": row}
        return orjson.dumps({"settings": settings, "model": str(self.model), **found})

    @classmethod
    def read(cls, letter: bytes) -> tuple["Home", int]:
        """The way back: and the row."""
        found: dict[str, Any] = orjson.loads(letter)
        home = cls(
            Settings(**found["settings"]),
            Path(found["model"]),
            *(found[name] for name in ("port", "table", "asking")),
        )
        return home, found["row"]
