"""Running servers as an Encoder: requests in flight to several of them, until each succeeds."""

import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models.vectors import Floats
from service.bulk.encoder import Advance
from service.bulk.errors import BulkError
from service.bulk.server import IN_FLIGHT, MAX_PAUSE, Server, describe
from service.client import Client, RequestFailed, request_builders

_TEXTS = 64  # of a request
_RETRIES = 1  # of the client: another server may be free
_PATIENCE = 120.0  # seconds without a success of any server after which a run ends
_TRANSIENT = (None, 429, 500, 502, 503, 504)  # statuses with which another attempt may succeed

_client_log = logging.getLogger(request_builders.__name__)


_Rows = list[int]  # of the texts of a request


class _First(logging.Filter):
    """Passes one record on: the client warns of cut texts at every request."""

    passed = False

    def filter(self, record: logging.LogRecord) -> bool:
        first, self.passed = not self.passed, True
        return first


@contextmanager
def connect(
    urls: Sequence[str], api_key: str | None, prompt: str | None, patience: float = _PATIENCE
) -> Iterator["Servers"]:
    """Connect to servers of one model. Raises BulkError if one cannot be reached or differs.

    patience: seconds for which all servers together may fail.
    """
    with ExitStack() as stack:
        first = _First()
        _client_log.addFilter(first)
        stack.callback(_client_log.removeFilter, first)
        clients = [stack.enter_context(Client(url, api_key, retries=_RETRIES)) for url in urls]
        servers = []
        for url, client in zip(urls, clients, strict=True):
            try:
                description = describe(client, url)
            except RequestFailed as error:
                raise BulkError(f"{url}: {error}") from None
            if description is None:
                raise BulkError(f"{url} has not loaded its model yet: try again")
            servers.append(Server(url, client, description))
            if servers[-1].description != servers[0].description:
                raise BulkError(f"{url} has another model or precision than {urls[0]}")
        pool = stack.enter_context(ThreadPoolExecutor(IN_FLIGHT * len(servers)))
        yield Servers(servers, pool, prompt, patience)


@dataclass
class Servers:
    """An Encoder whose requests go to whichever server has the fewest in flight.

    prompt: None for the model's. patience: seconds for which they may all fail.
    """

    servers: Sequence[Server]
    pool: ThreadPoolExecutor
    prompt: str | None = None
    patience: float = _PATIENCE

    @property
    def dim(self) -> int:
        return int(self.description["dimension"])

    @property
    def description(self) -> Mapping[str, Any]:
        description = self.servers[0].description
        return description if self.prompt is None else {**description, "prompt": self.prompt}

    def embed(self, texts: Sequence[str], advance: Advance) -> tuple[Floats, Mapping[int, str]]:
        return _Window(self, texts, advance).run()

    def free_server(self) -> Server | None:
        """The server that the next request goes to; None if all are busy or pause."""
        now = time.monotonic()
        free = [server for server in self.servers if server.is_free(now)]
        return min(free, key=lambda server: server.running, default=None)

    def submit(self, server: Server, texts: Sequence[str]) -> "Future[Floats]":
        """Begin a request."""
        server.running += 1
        return self.pool.submit(self._send, server, texts)

    def seconds_until_free(self) -> float:
        """Seconds until a server that pauses is asked again."""
        pauses = [s.paused_until for s in self.servers if s.running < IN_FLIGHT]
        return max(0.0, min(pauses, default=MAX_PAUSE) - time.monotonic())

    def _send(self, server: Server, texts: Sequence[str]) -> Floats:
        if server.failures:
            server.check()
        normalize = bool(server.description["normalized"])
        return server.client.embed(texts, normalize=normalize, prompt=self.prompt)


@dataclass
class _Window:
    """Texts that are being embedded. Only the thread of `run` changes what is in it."""

    servers: Servers
    texts: Sequence[str]
    advance: Advance
    rejected: dict[int, str] = field(default_factory=dict)
    running: dict["Future[Floats]", tuple[Server, _Rows]] = field(default_factory=dict)

    def run(self) -> tuple[Floats, Mapping[int, str]]:
        indices = range(len(self.texts))
        starts = reversed(indices[::_TEXTS])  # the longest first: none is left alone at the end
        self.waiting = deque([*indices[start : start + _TEXTS]] for start in starts)
        self.last_success = time.monotonic()
        self.vectors = np.zeros((len(self.texts), self.servers.dim), dtype=np.float32)
        try:
            while self.waiting or self.running:
                self._submit()
                self._receive()
        finally:
            for future in self.running:
                future.cancel()
        return self.vectors, self.rejected

    def _submit(self) -> None:
        while self.waiting and (server := self.servers.free_server()):
            rows = self.waiting.popleft()
            texts = [self.texts[row] for row in rows]
            self.running[self.servers.submit(server, texts)] = server, rows

    def _receive(self) -> None:
        timeout = self.servers.seconds_until_free() if self.waiting else None
        if not self.running:
            time.sleep(timeout or 0)
            return
        done, _ = wait(self.running, timeout, FIRST_COMPLETED)
        for future in done:
            server, rows = self.running.pop(future)
            server.running -= 1
            try:
                self.vectors[rows] = future.result()
            except RequestFailed as error:
                self._failed(server, rows, error)
            else:
                server.failures, self.last_success = 0, time.monotonic()
                self.advance(len(rows))

    def _failed(self, server: Server, rows: _Rows, error: RequestFailed) -> None:
        if error.index is not None and error.status is not None:  # a text is at fault
            reason = error.message.replace(f"input {error.index}", "the text", 1)
            self.rejected[rows.pop(error.index)] = reason
            self.advance(1)
            if rows:
                self.waiting.appendleft(rows)
            return
        too_long = time.monotonic() - self.last_success > self.servers.patience
        if error.status not in _TRANSIENT or too_long:
            raise BulkError(f"{server.url}: {error}") from None
        server.failed()
        self.waiting.appendleft(rows)
