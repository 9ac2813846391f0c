"""Forward passes of frequent batch shapes as CUDA graphs, which launch faster than kernels.

A CUDA graph reads and writes the same memory at each replay. A batch is therefore copied into the
memory of the smallest recorded shape that holds it.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from typing import Protocol

import torch
from torch import Tensor

from embedwell_models.encoder.batch_shape import BatchShape, PassPlan, RecordedShapes
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

log = logging.getLogger(__name__)

Forward = Callable[[Tensor, SequenceLayout], Tensor]
"""Forward pass: token ids (T,) and their layout -> hidden states (T, D)."""

Record = Callable[[Callable[[], Tensor]], tuple[Callable[[], None], Tensor]]
"""Function that records a computation; returns its replay function and its result tensor."""

_ROWS = (16, 32, 64, 128, 256, 384, 512, 768, 1024)
_LONGEST = (32, 128, 512, 1024)  # the kernels of attention start once for this many queries


def _recorded_shapes() -> Iterator[BatchShape]:
    # For few and for many texts, of a shape that no smaller number of rows serves.
    for smaller, rows in pairwise((0, *_ROWS)):
        lengths = sorted({min(rows, longest) for longest in _LONGEST})
        for texts, longest in product(sorted({4, rows // 4}), lengths):
            if texts * longest > smaller:
                yield BatchShape(rows, texts, longest)


RECORDED_SHAPES = [*_recorded_shapes()]


class ForwardRunner(Protocol):
    """Protocol of a runner of forward passes over all layers."""

    @property
    def shares_memory(self) -> bool:
        """Whether all forward passes use the same memory, so that they must not overlap."""
        ...

    def shape(self, lengths: Sequence[int]) -> BatchShape:
        """Return the shape of a batch of sequences with these lengths."""
        ...

    def __call__(self, layout: SequenceLayout) -> Tensor:
        """Run a forward pass over the layout's ids, see Forward.

        The result and the layout's tensors are valid until the next call.
        """
        ...

    def warm(self) -> None:
        """Prepare the runner, so that the first batches need not wait."""
        ...


class EagerRunner:
    """Runner that launches single kernels, in the batch's own shape."""

    shares_memory = False

    def __init__(self, forward: Forward) -> None:
        self._forward = forward

    def shape(self, lengths: Sequence[int]) -> BatchShape:
        return BatchShape.of(lengths)

    def __call__(self, layout: SequenceLayout) -> Tensor:
        return self._forward(layout.ids, layout)

    def warm(self) -> None:
        """Do nothing: forward passes share nothing."""


class CudaGraphRunner:
    """Runner that replays recorded forward passes.

    Larger batches run eagerly, and so do batches of the shapes from the first failed recording on.
    """

    shares_memory = True

    def __init__(
        self,
        forward: Forward,
        device: torch.device,
        record: Record,
        outcome: RecordedShapes,
        plan: PassPlan,
    ) -> None:
        """outcome: filled by `warm`."""
        self._forward, self._device, self._record = forward, device, record
        self._outcome, self._plan = outcome, plan
        self._recorded: dict[BatchShape, _RecordedForward] = {}

    def shape(self, lengths: Sequence[int]) -> BatchShape:
        least = BatchShape.of(lengths)
        fitting = next((shape for shape in self._plan.shapes if shape.holds(least)), least)
        return fitting if fitting in self._recorded else least

    def __call__(self, layout: SequenceLayout) -> Tensor:
        recorded = self._recorded.get(layout.shape)
        return self._forward(layout.ids, layout) if recorded is None else recorded(layout)

    def warm(self) -> None:
        recorded: dict[BatchShape, _RecordedForward] = {}
        failure = ""
        start = time.perf_counter()
        # The largest shape first, because the others then fit in its memory.
        for shape in reversed(self._plan.shapes):
            try:
                recorded[shape] = _RecordedForward(self._forward, self._device, shape, self._record)
            except RuntimeError as error:
                # If the recording cannot even be ended, the context is the cause.
                failure = str(error.__context__ or error).partition("\n")[0]
                # Before torch 2.13 the allocator then stays as in a recording, and would put the
                # memory of what follows into a pool of graphs.
                break
        self._recorded = recorded
        failed = [shape for shape in reversed(self._plan.shapes) if shape not in recorded]
        self._outcome.recorded, self._outcome.failed = [*recorded], failed
        self._outcome.plan, self._outcome.seconds = self._plan, time.perf_counter() - start
        if recorded:
            log.info("recorded %d CUDA graphs in %.1f s", len(recorded), self._outcome.seconds)
        if failed:
            log.warning(
                "%d of %d batch shapes have no CUDA graph, and small batches of them are slower. "
                "A recording failed: %s",
                *(len(failed), len(self._plan.shapes), failure),
            )


class _RecordedForward:
    def __init__(
        self, forward: Forward, device: torch.device, shape: BatchShape, record: Record
    ) -> None:
        layout = SequenceLayout([1], device, shape=shape)
        self._memory = layout.memory

        def compute() -> Tensor:
            return forward(layout.ids, layout.without_cache())

        self._replay, self._hidden = record(compute)

    def __call__(self, layout: SequenceLayout) -> Tensor:
        layout.move_to(self._memory)
        self._replay()
        return self._hidden


class CudaGraphRecorder:
    """Recorder of CUDA graphs that share one memory pool, because they never run concurrently."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        with torch.cuda.device(device):
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        graph = torch.cuda.CUDAGraph()
        # After a failure torch does not restore the stream itself.
        with torch.cuda.device(self._device), torch.cuda.stream(torch.cuda.current_stream()):
            # Allocations at first use (cuBLAS's workspace) must not become part of the graph.
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                compute()
            try:
                with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                    result = compute()
            except RuntimeError:
                # torch may still count the pool as in use.
                self._pool = torch.cuda.graph_pool_handle()
                raise
        return graph.replay, result
