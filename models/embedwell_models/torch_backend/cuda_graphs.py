"""Forward passes of frequent batch shapes as CUDA graphs, which launch faster than kernels.

A CUDA graph reads and writes the same memory at each replay. A batch is therefore copied into the
memory of the smallest recorded shape that holds it.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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

Rehearse = Callable[[Callable[[], Tensor]], "Rehearsal"]
"""Function that computes eagerly; raises OutOfMemoryError."""

_ROWS = (16, 32, 64, 128, 256, 384, 512, 768, 1024)
_LONGEST = (32, 128, 512, 1024)  # the kernels of attention start once for this many queries
# Of large batches, at most a fifth is padding.
_LARGE_ROWS = tuple(size * step for size in (256, 512, 1024, 2048) for step in (5, 6, 7, 8))
_LARGE_LONGEST = (32, 128, 512, 2048, 16384)
_MEMORY_SHARE = 8  # of the free memory of a GPU, an eighth may be taken by a recorded pass


def _recorded_shapes() -> Iterator[BatchShape]:
    # For few and for many texts, of a shape that no smaller number of rows serves.
    for smaller, rows in pairwise((0, *_ROWS)):
        lengths = sorted({min(rows, longest) for longest in _LONGEST})
        for texts, longest in product(sorted({4, rows // 4}), lengths):
            if texts * longest > smaller:
                yield BatchShape(rows, texts, longest)
    # For texts whose mean is an eighth of the longest, or more: the kernels of attention start for
    # each text as for the longest.
    for rows in _LARGE_ROWS:
        for longest in sorted({min(rows, longest) for longest in _LARGE_LONGEST}, reverse=True):
            yield BatchShape(rows, 8 * rows // longest, longest)


RECORDED_SHAPES = [*_recorded_shapes()]


@dataclass(frozen=True)
class Rehearsal:
    """An eager pass. result: hidden states. memory: bytes that it takes. free: bytes of the GPU.

    launching: seconds in which the host launches the kernels. seconds: until they have ended.
    """

    result: Tensor
    memory: int
    free: int
    launching: float
    seconds: float

    def is_worth_recording(self) -> bool:
        """Whether the GPU waits for the host in an eager pass, and the memory suffices.

        Where it does not wait, a graph computes its padding for nothing.
        """
        return self.seconds < 1.5 * self.launching and self.memory * _MEMORY_SHARE <= self.free


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

    Larger batches run eagerly, and so do batches of large shapes that are not worth recording, and
    of the shapes from the first failed recording on.
    """

    shares_memory = True

    def __init__(  # noqa: PLR0913 - one is keyword-only
        self,
        forward: Forward,
        device: torch.device,
        record: Record,
        outcome: RecordedShapes,
        plan: PassPlan,
        *,
        rehearse: Rehearse | None = None,
    ) -> None:
        """outcome: filled by `warm`. rehearse: None to record no large shapes."""
        self._forward, self._device, self._record = forward, device, record
        self._outcome, self._plan = outcome, plan
        self._rehearse = rehearse
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
        failure, output, start = "", None, time.perf_counter()
        shapes, skipped = [*reversed(self._plan.shapes)], set[BatchShape]()
        # The largest shape first, because the others then fit in its memory.
        for shape in shapes:
            one = _RecordedForward(self._forward, self._device, shape)
            if shape.rows > _ROWS[-1]:
                rehearsal = self._rehearsal(one)
                if rehearsal is None or not rehearsal.is_worth_recording():
                    skipped.add(shape)
                    continue
                output = torch.empty_like(rehearsal.result) if output is None else output
            try:
                one.record(self._record, output if shape.rows > _ROWS[-1] else None)
            except RuntimeError as error:
                # If the recording cannot even be ended, the context is the cause.
                failure = str(error.__context__ or error).partition("\n")[0]
                # Before torch 2.13 the allocator then stays as in a recording, and would put the
                # memory of what follows into a pool of graphs.
                break
            recorded[shape] = one
        self._recorded = recorded
        failed = [shape for shape in shapes if shape not in recorded and shape not in skipped]
        self._outcome.recorded, self._outcome.failed = [*recorded], failed
        self._outcome.plan, self._outcome.seconds = self._plan, time.perf_counter() - start
        if recorded:
            log.info(
                "recorded %d CUDA graphs of up to %d tokens in %.1f s",
                *(len(recorded), next(iter(recorded)).rows, self._outcome.seconds),
            )
        if failed:
            log.warning(
                "%d of %d batch shapes have no CUDA graph, and small batches of them are slower. "
                "A recording failed: %s",
                *(len(failed), len(self._plan.shapes), failure),
            )

    def _rehearsal(self, forward: "_RecordedForward") -> Rehearsal | None:
        if self._rehearse is None:
            return None
        try:
            return self._rehearse(forward.compute)
        except torch.OutOfMemoryError:
            return None


class _RecordedForward:
    def __init__(self, forward: Forward, device: torch.device, shape: BatchShape) -> None:
        self._forward = forward
        self._layout = SequenceLayout([1], device, shape=shape)
        self._memory = self._layout.memory

    def compute(self) -> Tensor:
        return self._forward(self._layout.ids, self._layout.without_cache())

    def record(self, record: Record, output: Tensor | None) -> None:
        # output: memory that graphs of large shapes share for their results, of more rows.
        def compute() -> Tensor:
            hidden = self.compute()
            return hidden if output is None else output[: len(hidden)].copy_(hidden)

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

    def rehearse(self, compute: Callable[[], Tensor]) -> Rehearsal:
        """Compute eagerly, and measure it; raises OutOfMemoryError."""
        with torch.cuda.device(self._device):
            compute()  # the first time it also compiles kernels and allocates
            torch.cuda.synchronize()
            free, _ = torch.cuda.mem_get_info()
            free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            result = compute()
            launching = time.perf_counter() - start
            torch.cuda.synchronize()
            seconds = time.perf_counter() - start
            memory = torch.cuda.max_memory_allocated() - before
        return Rehearsal(result, memory, free, launching, seconds)

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
