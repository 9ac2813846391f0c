"""Forward passes of frequent batch shapes as CUDA graphs, which launch faster than single kernels.

A CUDA graph reads and writes the same memory whenever it is replayed, so a batch is copied into the
buffers of the smallest recorded shape that holds it.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from embedwell_models.encoder.sequence_layout import BatchShape, LayoutFunction, SequenceLayout

Forward = Callable[[Tensor, SequenceLayout], Tensor]
"""A forward pass: token ids (T,) and their layout -> hidden states (T, D)."""

Record = Callable[[Callable[[], Tensor]], tuple[Callable[[], None], Tensor]]
"""Records a computation; returns how to replay it, and the tensor that then has the result."""

_ROWS = (16, 32, 64, 128, 256, 384, 512, 768, 1024)
# For few texts and for many; sequences that a batch lacks cost next to nothing.
RECORDED_SHAPES = [
    BatchShape(rows, texts, rows) for rows in _ROWS for texts in sorted({4, rows // 4})
]


class ForwardRunner(Protocol):
    """Runs forward passes over all layers."""

    @property
    def shares_memory(self) -> bool:
        """Whether all forward passes use the same memory, so that they must not overlap."""
        ...

    def shape(self, lengths: Sequence[int]) -> BatchShape:
        """Return the shape in which a batch of such sequences is laid out."""
        ...

    def __call__(self, ids: Tensor, layout: SequenceLayout) -> Tensor:
        """See Forward; the result is valid until the next call."""
        ...

    def warm(self) -> None:
        """Prepare what the first batches would otherwise wait for."""
        ...


class EagerRunner:
    """Launches one kernel after another, in the batch's own shape."""

    shares_memory = False

    def __init__(self, forward: Forward) -> None:
        self._forward = forward

    def shape(self, lengths: Sequence[int]) -> BatchShape:
        return BatchShape.of(lengths)

    def __call__(self, ids: Tensor, layout: SequenceLayout) -> Tensor:
        return self._forward(ids, layout)

    def warm(self) -> None:
        """Do nothing: nothing is reused between forward passes."""


class CudaGraphRunner:
    """Replays recorded forward passes; larger batches run eagerly."""

    shares_memory = True

    def __init__(
        self,
        forward: Forward,
        device: torch.device,
        record: Record,
        shapes: Sequence[BatchShape] = RECORDED_SHAPES,
    ) -> None:
        self._forward, self._device, self._record = forward, device, record
        self._shapes = shapes  # in ascending order
        self._recorded: dict[BatchShape, _RecordedForward] = {}

    def shape(self, lengths: Sequence[int]) -> BatchShape:
        tokens, count = sum(lengths), len(lengths)
        for shape in self._recorded:
            if tokens <= shape.rows and count <= shape.max_sequences:
                return shape
        return BatchShape.of(lengths)

    def __call__(self, ids: Tensor, layout: SequenceLayout) -> Tensor:
        recorded = None if layout.limits_keys else self._recorded.get(layout.shape)
        return (recorded or self._forward)(ids, layout)

    def warm(self) -> None:
        # The largest first: the others then fit in its memory.
        recorded = {
            shape: _RecordedForward(self._forward, self._device, shape, self._record)
            for shape in reversed(self._shapes)
        }
        self._recorded = {shape: recorded[shape] for shape in self._shapes}


class _RecordedForward:
    def __init__(
        self, forward: Forward, device: torch.device, shape: BatchShape, record: Record
    ) -> None:
        self._layout = _LayoutBuffers([1], device, shape=shape)
        self._ids = torch.zeros_like(self._layout.positions)
        self._replay, self._hidden = record(lambda: forward(self._ids, self._layout))

    def __call__(self, ids: Tensor, layout: SequenceLayout) -> Tensor:
        self._ids.copy_(ids)
        self._layout.copy_from(layout)
        self._replay()
        return self._hidden


class _LayoutBuffers(SequenceLayout):
    """The buffers of a layout that a recorded forward pass reads; refilled for each batch."""

    def __init__(self, lengths: Sequence[int], device: torch.device, *, shape: BatchShape) -> None:
        super().__init__(lengths, device, shape=shape)
        self._functions: dict[Hashable, LayoutFunction] = {}

    def cached(self, key: Hashable, compute: LayoutFunction) -> Any:
        self._functions.setdefault(key, compute)
        return super().cached(key, compute)

    def copy_from(self, other: SequenceLayout) -> None:
        """Copy the tensors of a layout of the same shape."""
        self.positions.copy_(other.positions)
        self.cu_seqlens.copy_(other.cu_seqlens)
        for key, compute in self._functions.items():
            tensors = zip(self.cached(key, compute), other.cached(key, compute), strict=True)
            for mine, theirs in tensors:
                mine.copy_(theirs)


class CudaGraphRecorder:
    """Records CUDA graphs that share one pool of memory, since no two of them run at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        with torch.cuda.device(device):
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device):
            # Allocations at first use, as cuBLAS's workspace, must not become part of the graph.
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                compute()
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                result = compute()
        return graph.replay, result
