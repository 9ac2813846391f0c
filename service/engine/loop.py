"""The engine's only thread: receive, schedule, encode, reply."""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from service.engine.lines import GONE, Mail
from service.engine.messages import (
    POOLED,
    Failure,
    Ids,
    Job,
    Result,
    pack_outcomes,
    unpack_jobs,
)
from service.engine.scheduler import Item, Scheduler
from service.engine.wire import Line

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]


Key = tuple[Line, int]  # of a job: its number on its line


class Lines(Protocol):
    """What the loop needs of its lines: see service.engine.lines."""

    def receive(self, wait: bool) -> Mail: ...


class Model(Protocol):
    """What the loop needs of an embedder."""

    def encode(
        self, ids: Sequence[Ids], *, normalized: bool | None = None, skips: Sequence[int] = ()
    ) -> Floats: ...
    def hidden(self, ids: Sequence[Ids], layer: int | str | None = None) -> list[Floats]: ...


@dataclass
class Open:
    """A job that is not answered yet."""

    rows: list[Ids]
    skips: Sequence[int]
    arrived: float
    done: dict[int, Floats] = field(default_factory=dict)
    started: float = 0.0
    computed: float = 0.0


class Loop:
    """Starts a batch as soon as there is work; the next one forms while it runs."""

    def __init__(self, lines: Lines, model: Model, scheduler: Scheduler[Key], rate: float) -> None:
        """rate: tokens per second of a full batch, as measured before the first."""
        self._lines, self._model, self._scheduler = lines, model, scheduler
        self._rate = rate
        self._open: dict[Key, Open] = {}
        self._outbox: dict[Line, list[tuple[int, Result | Failure]]] = defaultdict(list)

    def run(self) -> None:
        """Serve until the server is no more: that raises EOFError."""
        while True:
            self.turn()

    def turn(self) -> None:
        """Take what has come, waiting for it if there is nothing to do, and run one batch."""
        for line, message in self._lines.receive(wait=not self._scheduler):
            (verb, content), body = message
            if verb == "jobs":
                for number, job in unpack_jobs(content, body):
                    self._accept((line, number), job)
            elif message is GONE:
                for key in [key for key in self._open if key[0] is line]:
                    self._forget(key)
            else:
                self._forget((line, content))
        self._work(self._scheduler.next())

    def _accept(self, key: Key, job: Job) -> None:
        self._open[key] = Open(job.rows, job.skips or [0] * len(job.rows), time.perf_counter())
        for index, row in enumerate(job.rows):
            self._scheduler.add(Item(key, index, len(row), job.output))

    def _forget(self, key: Key) -> None:
        self._scheduler.cancel(key)
        self._open.pop(key, None)

    def _work(self, batch: list[Item[Key]]) -> None:
        if not batch:
            return
        start = time.perf_counter()
        done = self._encode(batch)
        spent = time.perf_counter() - start
        self._measure(sum(item.length for item in batch), spent)
        for key in dict.fromkeys(item.job for item in batch):
            job = self._open[key]
            job.started = job.started or start
            job.computed += spent
        for item, vectors in done:
            self._finish(item, vectors)
        self._reply()

    def _measure(self, tokens: int, seconds: float) -> None:
        # Small batches say nothing of what a full engine can do.
        if 2 * tokens >= self._scheduler.budget:
            self._rate += 0.2 * (tokens / seconds - self._rate)

    def _encode(self, batch: list[Item[Key]]) -> list[tuple[Item[Key], Floats | Failure]]:
        """The vectors of each item, or what is wrong with it.

        When a pass fails, its halves are tried alone: one bad text fails alone, and a batch that
        is too large for the device's memory succeeds in parts. A device that has failed itself
        computes nothing more for this process: that error ends it, and the server starts another.
        """
        rows = [self._open[item.job].rows[item.index] for item in batch]
        try:
            outputs = self._forward(batch, rows)
            pairs = zip(batch, outputs, strict=True)
            return [(item, _checked(out, item.index)) for item, out in pairs]
        except torch.AcceleratorError:
            raise
        except Exception as error:
            full = isinstance(error, torch.OutOfMemoryError)
            if len(batch) == 1:
                log.exception("a text of %d tokens cannot be encoded", batch[0].length)
                what = "the memory of the device is too small for it" if full else error
                message = f"the model failed on this input: {what}"
                return [(batch[0], Failure(message, batch[0].index))]
            tokens, kind = sum(item.length for item in batch), type(error).__name__
            log.warning("%d texts of %d tokens, in halves after %s", len(batch), tokens, kind)
        # Not in the handler: the error would keep alive what the failed pass holds of the memory.
        if full:
            torch.cuda.empty_cache()  # what is free may lie in pieces of the wrong sizes
        half = len(batch) // 2
        return self._encode(batch[:half]) + self._encode(batch[half:])

    def _forward(self, batch: list[Item[Key]], rows: list[Ids]) -> Iterable[Floats]:
        kind = batch[0].kind
        if kind != POOLED:
            return self._model.hidden(rows, kind)
        skips = [self._open[item.job].skips[item.index] for item in batch]
        return self._model.encode(rows, normalized=False, skips=skips)

    def _finish(self, item: Item[Key], vectors: Floats | Failure) -> None:
        job = self._open.get(item.job)
        if job is None:  # another of its texts has failed
            return
        if isinstance(vectors, Failure):
            self._close(item.job, vectors)
            return
        job.done[item.index] = np.atleast_2d(vectors)
        if len(job.done) == len(job.rows):
            parts = [job.done[index] for index in range(len(job.rows))]
            whole = np.concatenate(parts) if len(parts) > 1 else np.ascontiguousarray(parts[0])
            queued = round((job.started - job.arrived) * 1e6)
            self._close(item.job, Result(whole, queued, round(job.computed * 1e6), self._rate))

    def _close(self, key: Key, outcome: Result | Failure) -> None:
        self._forget(key)
        line, number = key
        self._outbox[line].append((number, outcome))

    def _reply(self) -> None:
        """Send what a pass has finished, as one message on each line."""
        for line, outcomes in self._outbox.items():
            line.send(*pack_outcomes(outcomes))
        self._outbox.clear()


def _checked(vectors: Floats, index: int) -> Floats | Failure:
    if np.isfinite(vectors).all():
        return vectors
    message = "the model gave a vector that is not finite; try another precision"
    return Failure(message, index, finite=False)
