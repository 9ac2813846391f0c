"""Share texts among workers, such as servers: each takes the next ones as soon as it is free."""

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from models.vectors import Floats
from service.bulk.errors import BulkError
from service.bulk.text_encoder import Advance


class WorkerFailed(Exception):
    """A failure after which another attempt may succeed."""


class WorkerDied(WorkerFailed):
    """The end of a worker, which the texts may have caused."""


class Worker(Protocol):
    """Handle of a process that embeds texts. in_flight: number of unfinished calls."""

    in_flight: int

    @property
    def free_at(self) -> float:
        """When it takes another call, in seconds of time.monotonic: infinity if that is unknown."""

    def submit(self, texts: Sequence[str]) -> "Future[Any]":
        """Begin a call."""

    def result(self, future: "Future[Any]") -> tuple[Floats, Mapping[int, str]]:
        """Return what TextEncoder.embed does. Raises WorkerFailed, and BulkError to end the run."""

    def note_success(self) -> None:
        """Called after a call that succeeded."""

    def note_failure(self) -> None:
        """Called after a WorkerFailed: the worker may take no call for a while."""


@dataclass(frozen=True)
class Dispatcher:
    """Embeds texts by workers, the least busy one first.

    chunk: texts of a call. failure_timeout: seconds of failures, without a success, that end a run.
    max_deaths: number of workers that may die of the same texts.
    """

    workers: Sequence[Worker]
    dim: int
    chunk: int
    failure_timeout: float
    max_deaths: int = 3

    def embed(self, texts: Sequence[str], advance: Advance) -> tuple[Floats, Mapping[int, str]]:
        """As TextEncoder.embed. Raises BulkError."""
        return _Window(self, texts, advance).run()

    def free_worker(self) -> Worker | None:
        """The worker that takes the next call; None if there is none now."""
        now = time.monotonic()
        free = [worker for worker in self.workers if worker.free_at <= now]
        return min(free, key=lambda worker: worker.in_flight, default=None)

    def seconds_until_free(self) -> float | None:
        """Seconds until a worker takes another call; None if that is unknown."""
        free_at = min(worker.free_at for worker in self.workers)
        return None if free_at == np.inf else max(0.0, free_at - time.monotonic())


@dataclass
class _Window:
    """Texts that are being embedded. Only the thread of `run` changes what is in it."""

    dispatcher: Dispatcher
    texts: Sequence[str]
    advance: Advance
    rejected: dict[int, str] = field(default_factory=dict)
    running: dict["Future[Any]", tuple[Worker, range]] = field(default_factory=dict)
    deaths: Counter[range] = field(default_factory=Counter)
    problem: str = "no worker takes a call"

    def run(self) -> tuple[Floats, Mapping[int, str]]:
        rows, chunk = range(len(self.texts)), self.dispatcher.chunk
        # The longest first: no worker is left alone with them at the end.
        self.waiting = deque(rows[start : start + chunk] for start in reversed(rows[::chunk]))
        self.failing_since: float | None = None
        self.vectors = np.zeros((len(self.texts), self.dispatcher.dim), dtype=np.float32)
        try:
            while self.waiting or self.running:
                self._submit()
                self._receive()
        finally:
            for future in self.running:
                future.cancel()
        return self.vectors, self.rejected

    def _submit(self) -> None:
        while self.waiting and (worker := self.dispatcher.free_worker()):
            rows = self.waiting.popleft()
            worker.in_flight += 1
            self.running[worker.submit(self.texts[rows.start : rows.stop])] = worker, rows

    def _receive(self) -> None:
        timeout = self.dispatcher.seconds_until_free() if self.waiting else None
        if not self.running:
            time.sleep(timeout or 0)
            self._check_failure_timeout()
            return
        done, _ = wait(self.running, timeout, FIRST_COMPLETED)
        for future in done:
            worker, rows = self.running.pop(future)
            worker.in_flight -= 1
            try:
                vectors, rejected = worker.result(future)
            except WorkerFailed as error:
                self._failed(worker, rows, error)
            else:
                self.vectors[rows.start : rows.stop] = vectors
                self.rejected |= {rows[index]: reason for index, reason in rejected.items()}
                self.failing_since = None
                worker.note_success()
                self.advance(len(rows))

    def _failed(self, worker: Worker, rows: range, error: WorkerFailed) -> None:
        self.problem = str(error)
        self._check_failure_timeout()
        if isinstance(error, WorkerDied):
            self.deaths[rows] += 1
            if self.deaths[rows] == self.dispatcher.max_deaths:
                raise BulkError(
                    f"{error}, for the {self.dispatcher.max_deaths}rd time with the same "
                    f"{len(rows)} texts, of which the first is {self.texts[rows.start][:80]!r}"
                )
        worker.note_failure()
        self.waiting.appendleft(rows)

    def _check_failure_timeout(self) -> None:
        now = time.monotonic()
        if self.failing_since is None:
            self.failing_since = now
        elif now - self.failing_since > self.dispatcher.failure_timeout:
            raise BulkError(self.problem)
