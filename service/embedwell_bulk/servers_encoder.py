"""Running servers as a TextEncoder."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedwell_bulk import BulkError
from embedwell_bulk.dispatch import Dispatcher, WorkerFailed
from embedwell_client import Client, RequestFailed, request_builders
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


_TEXTS, _CHARACTERS = 64, 16384  # maximum of a request, which has at least one text
_RETRIES = 1  # none by the client, because another server may be free
_FAILURE_TIMEOUT = 120.0  # seconds without a success of any server that end a run

_client_log = logging.getLogger(request_builders.__name__)


class _First(logging.Filter):
    """Passes only one record: the client warns of truncated texts at every request."""

    passed = False

    def filter(self, record: logging.LogRecord) -> bool:
        first, self.passed = not self.passed, True
        return first


@contextmanager
def connect(
    urls: Sequence[str],
    api_key: str | None,
    prompt: str | None,
    failure_timeout: float = _FAILURE_TIMEOUT,
) -> Iterator[Dispatcher]:
    """Connect to servers of one model. Raises BulkError if one is unreachable or differs.

    prompt: None for the model's default prompt.
    failure_timeout: seconds of failures of all servers that end a run.
    """
    with ExitStack() as stack:
        first = _First()
        _client_log.addFilter(first)
        stack.callback(_client_log.removeFilter, first)
        clients = [stack.enter_context(Client(url, api_key, retries=_RETRIES)) for url in urls]
        pool = stack.enter_context(ThreadPoolExecutor(IN_FLIGHT * len(urls)))
        servers = []
        for url, client in zip(urls, clients, strict=True):
            try:
                description = describe_model(client, url)
            except RequestFailed as error:
                raise BulkError(f"{url}: {error}") from None
            if description is None:
                raise BulkError(f"{url} has not loaded its model yet; try again in a minute")
            servers.append(ServerWorker(url, client, description, pool, prompt))
            if servers[-1].description != servers[0].description:
                raise BulkError(
                    f"{url} has another model or precision than {urls[0]}; choose servers with "
                    "the same"
                )
        description = dict(servers[0].description)
        if prompt is not None:
            description["prompt"] = prompt
        yield Dispatcher(servers, description, _TEXTS, _CHARACTERS, failure_timeout)
