"""An engine's loop with a small model whose vectors are easy to know, and a socket in memory."""

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from service.engine.protocol.messages import Failure, Ids, Job, Result, pack_jobs, unpack_outcomes
from service.engine.protocol.running_jobs import RunningJobs
from service.engine.protocol.wire import WorkerConnection
from service.engine.worker.batch_sizing import BatchSizing
from service.engine.worker.connections import ReceivedMessages
from service.engine.worker.loop import Loop

Floats = npt.NDArray[np.float32]
POISON, NAN, BIG, HUGE, BROKEN = 13, 14, 15, 16, 17


def ids(row: Sequence[int]) -> Ids:
    return np.array(row, dtype=np.int32)


class Held:
    """Memory that a pass holds, counted while it does."""

    def __init__(self, all_held: set[object]) -> None:
        assert not all_held, "a failed pass holds its memory while its halves are tried"
        self.all_held = all_held
        all_held.add(id(self))

    def __del__(self) -> None:
        self.all_held.discard(id(self))


class Sum:
    """A text's vector is the sum of its ids; some ids make it fail."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.skips: list[int] = []
        self.held: set[object] = set()

    def encode(
        self, ids: Sequence[Ids], *, normalized: bool | None = None, skips: Sequence[int] = ()
    ) -> Floats:
        assert normalized is False
        self.skips += skips
        self.batches.append(len(ids))
        if any(POISON in row for row in ids):
            raise RuntimeError("poison")
        if any(BIG in row for row in ids) and len(ids) > 2:
            held = Held(self.held)
            raise torch.OutOfMemoryError(f"CUDA out of memory beside {held}")
        if any(HUGE in row for row in ids):
            raise torch.OutOfMemoryError("CUDA out of memory")
        if any(BROKEN in row for row in ids):
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
        sums = np.array([[row.sum()] for row in ids], dtype=np.float32)
        sums[[NAN in row for row in ids]] = np.nan
        return sums

    def hidden(self, ids: Sequence[Ids], layer: int | str | None = None) -> list[Floats]:
        return [np.full((len(row), 2), layer, dtype=np.float32) for row in ids]


def running() -> RunningJobs:
    """A table that nobody shares."""
    return RunningJobs(mmap.mmap(-1, 1 << 14))


class Memory(WorkerConnection):
    """A line that keeps what is sent."""

    def __init__(self) -> None:
        self.running = running()
        self.sent: dict[int, Result | Failure] = {}
        self.messages = 0

    def send(self, head: Any, body: Any = b"") -> None:
        verb, content = head
        assert verb == "outcomes"
        self.messages += 1
        for number, outcome in unpack_outcomes(content, body):
            assert number not in self.sent, "answered twice"
            self.sent[number] = outcome


class Post:
    """Lines that were given messages."""

    def __init__(self) -> None:
        self.received: ReceivedMessages = []

    def receive(self, wait: bool) -> ReceivedMessages:
        if wait and not self.received:
            raise EOFError
        found, self.received = self.received, []
        return found


class Rig:
    def __init__(
        self,
        budget: int = 100,
        max_concurrent_batches: int = 1,
        model: Sum | None = None,
        prefetch_depth: int = 0,
        rate: float = 1e6,
    ) -> None:
        self.connection, self.other, self.post = Memory(), Memory(), Post()
        self.model = model or Sum()
        self.loop = Loop(
            self.post, self.model, BatchSizing(budget, max_concurrent_batches, prefetch_depth), rate
        )

    def send(
        self,
        number: int,
        *rows: list[int],
        output: str | int = "pooled",
        skips: Sequence[int] = (),
        connection: Memory | None = None,
    ) -> None:
        job = Job(output, [ids(row) for row in rows], skips)
        self.post.received.append((connection or self.connection, pack_jobs([(number, job)])))

    def cancel(self, number: int) -> None:
        self.post.received.append((self.connection, (["cancel", number], b"")))

    def run(self) -> None:
        """Until there is nothing to do."""
        self.loop.run()

    def result(self, number: int) -> list[list[float]]:
        found = self.connection.sent[number]
        assert isinstance(found, Result)
        rows: list[list[float]] = found.vectors.tolist()
        return rows

    def failure(self, number: int) -> Failure:
        found = self.connection.sent[number]
        assert isinstance(found, Failure)
        return found
