"""A running server that embeds: its model, and when it takes another request."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.outputs.names import DENSE
from service.bulk.errors import BulkError
from service.client import Client, RequestFailed

IN_FLIGHT = 8  # requests to a server
MAX_PAUSE = 30.0  # seconds without requests to a server that fails


@dataclass(eq=False)
class Server:
    """A server of a run.

    running: requests in flight. failures: since the last success. paused_until: of the clock.
    """

    url: str
    client: Client
    description: Mapping[str, Any]
    running: int = 0
    failures: int = 0
    paused_until: float = 0.0

    def is_free(self, now: float) -> bool:
        """Whether it takes another request. now: of time.monotonic."""
        return self.running < IN_FLIGHT and self.paused_until <= now

    def check(self) -> None:
        """Raise BulkError if the server has another model than at the start, or RequestFailed."""
        if (description := describe(self.client, self.url)) is None:
            raise RequestFailed(503, "model_loading", "the model is not loaded yet")
        if description != self.description:
            raise BulkError(f"{self.url} has another model than before")

    def failed(self) -> None:
        """Pause, once for all requests that were in flight."""
        if (now := time.monotonic()) >= self.paused_until:
            self.paused_until = now + min(2.0**self.failures, MAX_PAUSE)
            self.failures += 1


def describe(client: Client, url: str) -> dict[str, Any] | None:
    """The model of a server; None until it is loaded. Raises RequestFailed and BulkError."""
    info = client.info()
    if (engine := info["engine"]) is None:
        return None
    if DENSE not in info["outputs"]:
        raise BulkError(f"{url}: the model has no dense vectors of texts")
    return {
        "model": info["model"],
        "fingerprint": engine["fingerprint"],
        "precision": engine["dtype"],
        "dimension": engine["dim"],
        "normalized": engine["normalize"],
        "prompt": info["default_prompt"],
    }
