"""Passes of the frequent sizes, recorded once and replayed: to start them costs more than to run.

A recorded pass (a CUDA graph) reads and writes the same memory whenever it is replayed, so a batch
is copied into the buffers of the smallest recorded size that holds it.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from models.encoder.sequence_layout import Packing, Recipe, Shape

Forward = Callable[[Tensor, Packing], Tensor]
"""Token ids (T,) and where they lie -> hidden states (T, D)."""

Record = Callable[[Callable[[], Tensor]], tuple[Callable[[], None], Tensor]]
"""Of what is computed: how to compute it again, and where the result lies then."""

_ROWS = (16, 32, 64, 128, 256, 384, 512, 768, 1024)
# Few texts, or many; those that a batch lacks cost next to nothing.
SHAPES = [Shape(rows, most, rows) for rows in _ROWS for most in sorted({4, rows // 4})]


class Passes(Protocol):
    """How the passes over all layers are run."""

    @property
    def shared(self) -> bool:
        """Whether all passes use the same memory, so that one must be over before the next."""
        ...

    def shape(self, lengths: Sequence[int]) -> Shape:
        """The shape that a batch of such sequences is packed in."""
        ...

    def __call__(self, ids: Tensor, packing: Packing) -> Tensor:
        """See Forward; the result is good until the next call."""
        ...

    def warm(self) -> None:
        """Do once what the first batches would wait for."""
        ...


class Eager:
    """One operation after another, in the batch's own shape."""

    shared = False

    def __init__(self, forward: Forward) -> None:
        self._forward = forward

    def shape(self, lengths: Sequence[int]) -> Shape:
        return Shape.of(lengths)

    def __call__(self, ids: Tensor, packing: Packing) -> Tensor:
        return self._forward(ids, packing)

    def warm(self) -> None:
        """Nothing is kept from one pass to another."""


class Graphs:
    """Replays what was recorded; larger batches run one operation after another."""

    shared = True

    def __init__(
        self,
        forward: Forward,
        device: torch.device,
        record: Record,
        shapes: Sequence[Shape] = SHAPES,
    ) -> None:
        self._forward, self._device, self._record = forward, device, record
        self._shapes = shapes  # the smallest first
        self._recorded: dict[Shape, _Recorded] = {}

    def shape(self, lengths: Sequence[int]) -> Shape:
        tokens, count = sum(lengths), len(lengths)
        for shape in self._recorded:
            if tokens <= shape.rows and count <= shape.sequences:
                return shape
        return Shape.of(lengths)

    def __call__(self, ids: Tensor, packing: Packing) -> Tensor:
        return self._recorded.get(packing.shape, self._forward)(ids, packing)

    def warm(self) -> None:
        # The largest first: the others then find room in its memory.
        made = {
            shape: _Recorded(self._forward, self._device, shape, self._record)
            for shape in reversed(self._shapes)
        }
        self._recorded = {shape: made[shape] for shape in self._shapes}


class _Recorded:
    def __init__(
        self, forward: Forward, device: torch.device, shape: Shape, record: Record
    ) -> None:
        self._packing = _Buffers([1], device, shape=shape)
        self._ids = torch.zeros_like(self._packing.positions)
        self._replay, self._hidden = record(lambda: forward(self._ids, self._packing))

    def __call__(self, ids: Tensor, packing: Packing) -> Tensor:
        self._ids.copy_(ids)
        self._packing.take(packing)
        self._replay()
        return self._hidden


class _Buffers(Packing):
    """Where what a recorded pass reads of a packing lies; filled anew for each batch."""

    def __init__(self, lengths: Sequence[int], device: torch.device, *, shape: Shape) -> None:
        super().__init__(lengths, device, shape=shape)
        self._recipes: dict[Hashable, Recipe] = {}

    def recall(self, key: Hashable, make: Recipe) -> Any:
        self._recipes.setdefault(key, make)
        return super().recall(key, make)

    def take(self, other: Packing) -> None:
        """Copy a packing of the same shape."""
        self.positions.copy_(other.positions)
        self.borders.copy_(other.borders)
        for key, make in self._recipes.items():
            for mine, theirs in zip(self.recall(key, make), other.recall(key, make), strict=True):
                mine.copy_(theirs)


class CudaGraphs:
    """Records CUDA graphs that share one pool of memory, since no two of them run at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        with torch.cuda.device(device):
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device):
            # What is made at first use, as cuBLAS's workspace is, must not become part of it.
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                compute()
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                found = compute()
        return graph.replay, found
