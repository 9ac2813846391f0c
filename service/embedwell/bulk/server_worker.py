"""A running server as a worker: its model, and when it accepts another request."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedwell.bulk.errors import BulkError
from embedwell.bulk.worker import WorkerFailed
from embedwell_client import Client, RequestFailed
from embedwell_models.outputs.names import DENSE
from embedwell_models.vectors import Floats

IN_FLIGHT = 8  # requests to a server
_MAX_PAUSE = 30.0  # seconds without requests to a server that fails
_TRANSIENT = (None, 429, 500, 502, 503, 504)  # statuses after which another attempt may succeed


@dataclass(eq=False)
class ServerWorker:
    """A running server as a Worker.

    pool: threads that send.
    prompt: None for the model's default prompt.
    in_flight: number of unfinished requests.
    failures: number of failures since the last success.
    paused_until: in seconds of time.monotonic.
    """

    url: str
    client: Client
    description: Mapping[str, Any]
    pool: Executor
    prompt: str | None = None
    in_flight: int = 0
    failures: int = 0
    paused_until: float = 0.0

    @property
    def free_at(self) -> float:
        return np.inf if self.in_flight >= IN_FLIGHT else self.paused_until

    def submit(self, texts: Sequence[str]) -> "Future[Any]":
        return self.pool.submit(self._embed, texts)

    def result(self, future: "Future[Any]") -> tuple[Floats, Mapping[int, str]]:
        try:
            vectors, rejected = future.result()
        except RequestFailed as error:
            problem = f"{self.url}: {error}"
            raise (WorkerFailed if error.status in _TRANSIENT else BulkError)(problem) from None
        return vectors, rejected

    def note_success(self) -> None:
        self.failures = 0

    def note_failure(self) -> None:
        """Pause, once for all requests that were in flight."""
        if (now := time.monotonic()) >= self.paused_until:
            self.paused_until = now + min(2.0**self.failures, _MAX_PAUSE)
            self.failures += 1

    def check_model(self) -> None:
        """Raise BulkError if the server's model has changed since the start, or RequestFailed."""
        if (description := describe_model(self.client, self.url)) is None:
            raise RequestFailed(503, "model_loading", "the model is not loaded yet")
        if description != self.description:
            raise BulkError(
                f"{self.url} has another model than at the start; run the command again with "
                "--resume"
            )

    def _embed(self, texts: Sequence[str]) -> tuple[Floats, Mapping[int, str]]:
        if self.failures:
            self.check_model()
        normalize = bool(self.description["normalized"])
        vectors = np.zeros((len(texts), self.description["dimension"]), dtype=np.float32)
        rejected: dict[int, str] = {}
        while rows := [row for row in range(len(texts)) if row not in rejected]:
            try:
                vectors[rows] = self.client.embed(
                    [texts[row] for row in rows], normalize=normalize, prompt=self.prompt
                )
            except RequestFailed as error:
                if error.index is None or error.status is None:
                    raise
                reason = error.message.replace(f"input {error.index}", "the text", 1)
                rejected[rows[error.index]] = reason
            else:
                break
        return vectors, rejected


def describe_model(client: Client, url: str) -> dict[str, Any] | None:
    """Describe a server's model; None until it is loaded. Raises RequestFailed and BulkError."""
    info = client.info()
    if (engine := info["engine"]) is None:
        return None
    if DENSE not in info["outputs"]:
        raise BulkError(
            f"{url}: the model has no dense vectors of texts; choose a server whose model has"
        )
    return {
        "model": info["model"],
        "fingerprint": engine["fingerprint"],
        "precision": engine["dtype"],
        "dimension": engine["dim"],
        "normalized": engine["normalize"],
        "prompt": info["default_prompt"],
    }
