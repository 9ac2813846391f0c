"""The engine's only thread: receive, schedule, encode, reply."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import zmq

from service.engine.messages import (
    POOLED,
    Description,
    Failure,
    Ids,
    Job,
    Result,
    pack_outcomes,
    unpack_jobs,
)
from service.engine.scheduler import Item, Scheduler

log = logging.getLogger(__name__)

# Of the last pass. On two processors this gave 8 clients 30 % more, 32 clients 8 %; 0.4 no more.
_LINGER = 0.2

Floats = npt.NDArray[np.float32]
Address = tuple[bytes, int]  # which client, and its number for the job


class Model(Protocol):
    """What the loop needs of an embedder."""

    def encode(self, ids: Sequence[Ids], *, normalized: bool | None = None) -> Floats: ...
    def hidden(self, ids: Sequence[Ids], layer: int | str | None = None) -> list[Floats]: ...


@dataclass
class Open:
    """A job that is not answered yet."""

    rows: list[Ids]
    arrived: float
    done: dict[int, Floats] = field(default_factory=dict)
    started: float = 0.0
    computed: float = 0.0


class Loop:
    """Starts a batch as soon as there is work; the next one forms while it runs.

    A request that finds the engine idle never waits for company.
    """

    def __init__(
        self,
        socket: Any,
        model: Model,
        scheduler: Scheduler[Address],
        description: Description,
        rate: float,
    ) -> None:
        """rate: tokens per second of a full batch, as measured before the first."""
        self._socket, self._model = socket, model
        self._scheduler, self._description = scheduler, description
        self._rate = rate
        self._until = 0.0  # until when the next pass may wait for company
        self._open: dict[Address, Open] = {}
        self._outbox: dict[bytes, list[tuple[int, Result | Failure]]] = defaultdict(list)

    def run(self, lifeline: int) -> None:
        """Serve until the file descriptor `lifeline` closes: then the server is gone."""
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(lifeline, zmq.POLLIN)
        while True:
            events = dict(poller.poll(0 if self._scheduler else None))
            if lifeline in events:
                return
            if self._socket in events:
                self._receive()
                self._linger(lambda wait: self._socket in dict(poller.poll(wait)))
            self._work(self._scheduler.next())

    def _linger(self, arrives: Callable[[int], bool]) -> None:
        """Wait for those whom the last pass has answered together, if they come back at once.

        They would miss this pass and fill another. An engine that was idle waits for nobody.
        arrives: whether something comes within some milliseconds.
        """
        while (left := self._until - time.perf_counter()) > 0 and arrives(min(1, int(left * 1e3))):
            self._receive()

    def _receive(self) -> None:
        while True:
            try:
                client, verb, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if verb == b"jobs":
                for number, job in unpack_jobs(frames):
                    self._accept((client, number), job)
            elif verb == b"cancel":
                address = (client, int(frames[0]))
                self._scheduler.cancel(address)
                self._open.pop(address, None)
            else:
                self._send(client, b"description", self._description.frames())

    def _accept(self, address: Address, job: Job) -> None:
        self._open[address] = Open(job.rows, time.perf_counter())
        for index, row in enumerate(job.rows):
            self._scheduler.add(Item(address, index, len(row), job.output))

    def _work(self, batch: list[Item[Address]]) -> None:
        if not batch:
            return
        start = time.perf_counter()
        done = self._encode(batch)
        spent = time.perf_counter() - start
        self._measure(sum(item.length for item in batch), spent)
        shared = len(batch) > 1 or len(self._scheduler) > 0
        self._until = start + spent * (1 + _LINGER) if shared else 0.0
        for address in dict.fromkeys(item.job for item in batch):
            job = self._open[address]
            job.started = job.started or start
            job.computed += spent
        for item, vectors in done:
            self._finish(item, vectors)
        self._reply()

    def _measure(self, tokens: int, seconds: float) -> None:
        # Small batches say nothing of what a full engine can do.
        if 2 * tokens >= self._scheduler.budget:
            self._rate += 0.2 * (tokens / seconds - self._rate)

    def _encode(self, batch: list[Item[Address]]) -> list[tuple[Item[Address], Floats | str]]:
        """The vectors of each item, or what is wrong with it.

        When a pass fails, its halves are tried alone: one bad text fails alone, and a batch that
        is too large for the device's memory succeeds in parts.
        """
        rows = [self._open[item.job].rows[item.index] for item in batch]
        try:
            outputs = self._forward(rows, batch[0].kind)
        except Exception as error:
            if len(batch) == 1:
                log.exception("a text of %d tokens cannot be encoded", batch[0].length)
                return [(batch[0], f"the model failed on this input: {error}")]
            half = len(batch) // 2
            return self._encode(batch[:half]) + self._encode(batch[half:])
        return [(item, _checked(out)) for item, out in zip(batch, outputs, strict=True)]

    def _forward(self, rows: list[Ids], kind: str | int) -> Iterable[Floats]:
        if kind == POOLED:
            return self._model.encode(rows, normalized=False)
        return self._model.hidden(rows, kind)

    def _finish(self, item: Item[Address], vectors: Floats | str) -> None:
        job = self._open.get(item.job)
        if job is None:  # another of its texts has failed
            return
        if isinstance(vectors, str):
            self._close(item.job, Failure(vectors, item.index))
            return
        job.done[item.index] = np.atleast_2d(vectors)
        if len(job.done) == len(job.rows):
            parts = [job.done[index] for index in range(len(job.rows))]
            whole = np.concatenate(parts) if len(parts) > 1 else np.ascontiguousarray(parts[0])
            queued = round((job.started - job.arrived) * 1e6)
            self._close(item.job, Result(whole, queued, round(job.computed * 1e6), self._rate))

    def _close(self, address: Address, outcome: Result | Failure) -> None:
        client, number = address
        del self._open[address]
        self._scheduler.cancel(address)
        self._outbox[client].append((number, outcome))

    def _reply(self) -> None:
        """Send what a pass has finished: one message for each client."""
        for client, outcomes in self._outbox.items():
            self._send(client, b"outcomes", pack_outcomes(outcomes))
        self._outbox.clear()

    def _send(self, client: bytes, verb: bytes, frames: list[Any]) -> None:
        self._socket.send_multipart([client, verb, *frames], zmq.NOBLOCK)


def _checked(vectors: Floats) -> Floats | str:
    if np.isfinite(vectors).all():
        return vectors
    return "the model gave a vector that is not finite; try another precision"
