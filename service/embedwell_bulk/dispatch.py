"""Distribute texts among servers; each gets more as soon as it is free."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from embedwell_bulk import BulkError
from embedwell_bulk.text_encoder import Advance
from embedwell_models.vectors import Floats


class WorkerFailed(Exception):
    """A failure after which another attempt may succeed."""


class Worker(Protocol):
    """Handle of a server that embeds texts.

    in_flight: number of unfinished calls.
    """

    in_flight: int

    @property
    def free_at(self) -> float:
        """Time when it accepts another call, by time.monotonic; infinity if unknown."""

    def submit(self, texts: Sequence[str]) -> "Future[Any]":
        """Begin a call."""

    def result(self, future: "Future[Any]") -> tuple[Floats, Mapping[int, str]]:
        """Return the vectors of a call, and the rejected texts: see Encoded.

        Raises WorkerFailed, and BulkError to end the run.
        """

    def note_success(self) -> None:
        """Record that a call succeeded."""

    def note_failure(self) -> None:
        """Record a WorkerFailed; the worker may accept no call for a while."""


@dataclass
class Dispatcher:
    """A TextEncoder of workers, the least busy of which gets the next texts; for one thread.

    max_texts, max_characters: limits of a call, which has at least one text.
    failure_timeout: seconds of failures without a success that end a run.
    """

    workers: Sequence[Worker]
    description: Mapping[str, Any]
    max_texts: int
    max_characters: int
    failure_timeout: float
    _waiting: "deque[_Call]" = field(default_factory=deque, init=False)
    _running: "dict[Future[Any], tuple[Worker, _Call]]" = field(default_factory=dict, init=False)
    _failing_since: float | None = field(default=None, init=False)
    _problem: str = field(default="no worker accepts a call", init=False)

    @property
    def dim(self) -> int:
        return int(self.description["dimension"])

    @property
    def min_texts(self) -> int:
        return self.max_texts

    def begin(self, texts: Sequence[str], advance: Advance) -> "DispatchedTexts":
        """Wait until the workers have all of the texts. Raises BulkError."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        dispatched = DispatchedTexts(self, texts, advance, vectors, len(texts))
        calls = cut_into_calls([*map(len, texts)], self.max_texts, self.max_characters)
        # The longest texts first, so that no worker is left alone with them at the end.
        self._waiting.extend(_Call(dispatched, rows) for rows in reversed(calls))
        self._submit()
        while self._waiting:
            self.step()
        return dispatched

    def step(self) -> None:
        """Receive the results of the next call to end, of any texts, and submit others."""
        self._receive()
        self._submit()

    def _submit(self) -> None:
        while self._waiting and (worker := self._free_worker()):
            call = self._waiting.popleft()
            worker.in_flight += 1
            self._running[worker.submit(call.texts)] = worker, call

    def _free_worker(self) -> Worker | None:
        now = time.monotonic()
        free = [worker for worker in self.workers if worker.free_at <= now]
        return min(free, key=lambda worker: worker.in_flight, default=None)

    def _seconds_until_free(self) -> float | None:
        """Return the seconds until a worker accepts another call; None if that is unknown."""
        free_at = min(worker.free_at for worker in self.workers)
        return None if free_at == np.inf else max(0.0, free_at - time.monotonic())

    def _receive(self) -> None:
        timeout = self._seconds_until_free() if self._waiting else None
        if not self._running:
            time.sleep(timeout or 0)
            self._check_failure_timeout()
            return
        done, _ = wait(self._running, timeout, FIRST_COMPLETED)
        for future in done:
            worker, call = self._running.pop(future)
            worker.in_flight -= 1
            try:
                vectors, rejected = worker.result(future)
            except WorkerFailed as error:
                self._failed(worker, call, error)
            else:
                self._failing_since = None
                worker.note_success()
                call.of.receive(call.rows, vectors, rejected)

    def _failed(self, worker: Worker, call: "_Call", error: WorkerFailed) -> None:
        self._problem = str(error)
        self._check_failure_timeout()
        worker.note_failure()
        self._waiting.appendleft(call)

    def _check_failure_timeout(self) -> None:
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since > self.failure_timeout:
            raise BulkError(self._problem)


@dataclass
class DispatchedTexts:
    """Texts that workers embed: a Pending.

    left: number of texts without a result.
    """

    dispatcher: Dispatcher
    texts: Sequence[str]
    advance: Advance
    vectors: Floats
    left: int
    rejected: dict[int, str] = field(default_factory=dict)

    def done(self) -> bool:
        return not self.left

    def result(self) -> tuple[Floats, Mapping[int, str]]:
        while self.left:
            self.dispatcher.step()
        return self.vectors, self.rejected

    def receive(self, rows: range, vectors: Floats, rejected: Mapping[int, str]) -> None:
        """Take the result of a call."""
        self.vectors[rows.start : rows.stop] = vectors
        self.rejected |= {rows[index]: reason for index, reason in rejected.items()}
        self.left -= len(rows)
        self.advance(len(rows))


@dataclass
class _Call:
    """Texts of one call."""

    of: DispatchedTexts
    rows: range

    @property
    def texts(self) -> Sequence[str]:
        return self.of.texts[self.rows.start : self.rows.stop]


def cut_into_calls(lengths: Sequence[int], max_texts: int, max_characters: int) -> list[range]:
    """Split texts of ascending lengths into ranges within both limits, of at least one text."""
    calls: list[range] = []
    start = characters = 0
    for row, length in enumerate(lengths):
        characters += length
        if row > start and (row - start == max_texts or characters > max_characters):
            calls.append(range(start, row))
            start, characters = row, length
    return [*calls, range(start, len(lengths))] if lengths else []
