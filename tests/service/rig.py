"""Engine loop with a small model whose vectors are easy to predict, and fake connections."""

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from embedwell.engine.wire.engine_sockets import HttpProcessConnection, RunningTextCounts
from embedwell.engine.wire.messages import (
    Failure,
    Job,
    Result,
    TokenIds,
    pack_jobs,
    unpack_results,
)
from embedwell.engine.worker.batch_sizing import BatchSizing
from embedwell.engine.worker.loop import Loop
from embedwell.engine.worker.receiver import ReceivedMessages
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.outputs.text_outputs import SparseVector, TextOutputs

Floats = npt.NDArray[np.float32]
POISON, NAN, BIG, HUGE, BROKEN = 13, 14, 15, 16, 17


def ids(row: Sequence[int]) -> TokenIds:
    return np.array(row, dtype=np.int32)


class Allocation:
    """Memory of a forward pass, counted until it is freed."""

    def __init__(self, allocations: set[object]) -> None:
        assert not allocations, "a failed pass keeps its memory while its halves are tried"
        self._allocations = allocations
        allocations.add(id(self))

    def __del__(self) -> None:
        self._allocations.discard(id(self))


class SumModel:
    """A text's vector is the sum of its ids; some ids make it fail."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.prompt_token_counts: list[int] = []
        self.allocations: set[object] = set()

    def encode(
        self,
        ids: Sequence[TokenIds],
        *,
        normalized: bool | None = None,
        prompt_token_counts: Sequence[int] = (),
    ) -> Floats:
        assert normalized is False
        self.prompt_token_counts += prompt_token_counts
        self.batches.append(len(ids))
        if any(POISON in row for row in ids):
            raise RuntimeError("poison")
        if any(BIG in row for row in ids) and len(ids) > 2:
            allocation = Allocation(self.allocations)
            raise torch.OutOfMemoryError(f"CUDA out of memory next to {allocation}")
        if any(HUGE in row for row in ids):
            raise torch.OutOfMemoryError("CUDA out of memory")
        if any(BROKEN in row for row in ids):
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
        sums = np.array([[row.sum()] for row in ids], dtype=np.float32)
        sums[[NAN in row for row in ids]] = np.nan
        return sums

    def encode_images(self, images: Sequence[npt.NDArray[np.uint8]]) -> Floats:
        self.batches.append(len(images))
        return np.array([[image.sum()] for image in images], dtype=np.float32)

    def encode_page(self, ids: TokenIds, images: Sequence[npt.NDArray[np.uint8]]) -> Floats:
        """Refuse an image: this model reads texts only."""
        raise NotImplementedError

    def encode_with_images(self, ids: TokenIds, images: Sequence[npt.NDArray[np.uint8]]) -> Floats:
        self.batches.append(1)
        pixels = sum(int(image.sum()) for image in images)
        return np.array([[ids.sum() + pixels]], dtype=np.float32)

    def outputs(
        self,
        ids: Sequence[TokenIds],
        names: Sequence[str],
        *,
        prompt_token_counts: Sequence[int] = (),
    ) -> list[TextOutputs]:
        sums = self.encode(ids, normalized=False, prompt_token_counts=prompt_token_counts)
        return [
            TextOutputs(
                dense=vector if "dense" in names else None,
                sparse=SparseVector(row, row.astype(np.float32)) if "sparse" in names else None,
            )
            for row, vector in zip(ids, sums, strict=True)
        ]

    def hidden(self, ids: Sequence[TokenIds], layer: int | str | None = None) -> list[Floats]:
        return [np.full((len(row), 2), layer, dtype=np.float32) for row in ids]


def running() -> RunningTextCounts:
    """An empty table of running jobs."""
    return RunningTextCounts(mmap.mmap(-1, 1 << 14))


class FakeConnection(HttpProcessConnection):
    """A connection that stores the sent results."""

    def __init__(self) -> None:
        self.running = running()
        self.sent: dict[int, Result | Failure] = {}
        self.messages = 0

    def send(self, header: Any, *body: Any) -> None:
        message_type, content = header
        assert message_type == "results"
        self.messages += 1
        for number, result in unpack_results(content, b"".join(body)):
            assert number not in self.sent, "the result was sent twice"
            self.sent[number] = result


class FakeConnections:
    """Connections whose messages the test appends; the engine loop ends when none is left."""

    def __init__(self) -> None:
        self.received: ReceivedMessages = []

    def receive(self, wait: bool) -> ReceivedMessages:
        if wait and not self.received:
            raise EOFError
        messages, self.received = self.received, []
        return messages


class Rig:
    def __init__(
        self,
        max_batch_tokens: int = 100,
        max_concurrent_batches: int = 1,
        model: SumModel | None = None,
        prefetch_depth: int = 0,
        rate: float = 1e6,
    ) -> None:
        self.connection, self.second_connection, self.connections = (
            FakeConnection(),
            FakeConnection(),
            FakeConnections(),
        )
        self.model = model or SumModel()
        self.loop = Loop(
            self.connections,
            self.model,
            BatchSizing(max_batch_tokens, max_concurrent_batches, prefetch_depth),
            rate,
        )

    def send(
        self,
        number: int,
        *rows: list[int],
        output: str | int = "dense",
        prompt_token_counts: Sequence[int] = (),
        connection: FakeConnection | None = None,
    ) -> None:
        job = Job(output, FlatRows.of([ids(row) for row in rows]), prompt_token_counts)
        header, *body = pack_jobs([(number, job)])
        message = header, b"".join(body)
        self.connections.received.append((connection or self.connection, message))

    def cancel(self, number: int) -> None:
        self.connections.received.append((self.connection, (["cancel", number], b"")))

    def run(self) -> None:
        """Run the loop until no messages are left."""
        self.loop.run()

    def result(self, number: int) -> list[list[float]]:
        result = self.connection.sent[number]
        assert isinstance(result, Result)
        rows: list[list[float]] = result.vectors.tolist()
        return rows

    def failure(self, number: int) -> Failure:
        result = self.connection.sent[number]
        assert isinstance(result, Failure)
        return result
