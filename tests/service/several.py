"""A server process with several small models of random weights."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedwell.launch.supervised import ENGINE
from tests.service.server import Server

Options = Mapping[str, object]


class SeveralModels(Server):
    """`embedwell serve` with a file of models: their options by their names."""

    def __init__(self, folder: Path, models: Mapping[str, Options], **settings: Any) -> None:
        """folder: for the log and the file of the models."""
        file = folder / "models.toml"
        lines = []
        for name, options in models.items():
            lines += [f'["{name}"]', *(f"{key} = {json.dumps(options[key])}" for key in options)]
        file.write_text("\n".join(lines), encoding="utf-8")
        super().__init__(folder / "log", models_file=file, **settings)

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
