"""Shapes of batches, how a GPU computes them, and which of them it has recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class BatchShape:
    """Tensor sizes of a forward pass; batches of one shape launch the same GPU kernels.

    rows: number of rows of the hidden states. max_sequences: maximum number of sequences.
    max_length: maximum number of rows of a sequence.
    """

    rows: int
    max_sequences: int
    max_length: int

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "BatchShape":
        """Return the shape of sequences; the number of rows is rounded up, so that shapes recur."""
        return cls(rounded_rows(sum(lengths)), len(lengths), max(lengths))

    def holds(self, other: "BatchShape") -> bool:
        """Whether a batch of another shape can be padded to this one."""
        return (
            self.rows >= other.rows
            and self.max_sequences >= other.max_sequences
            and self.max_length >= other.max_length
        )


def rounded_rows(tokens: int) -> int:
    """Round a number of tokens up to a number of rows: few distinct values, little padding."""
    step = 4 if tokens <= 32 else 16 if tokens <= 512 else 64
    return -(-tokens // step) * step


@dataclass(frozen=True)
class PassPlan:
    """Plan of an encoder's forward passes on a GPU.

    attention: numbers of layers by the kernel of their attention: flash, triton, efficient, or
    padded, which is slow. kernels: triton, or why torch computes a norm, rotation or pooling in
    several kernels. shapes: in ascending order, those to record as CUDA graphs. no_graphs: why
    there are none.
    """

    attention: Mapping[str, int] = field(default_factory=dict)
    kernels: str = "triton"
    shapes: Sequence[BatchShape] = ()
    no_graphs: str = ""

    def as_json(self) -> dict[str, Any]:
        """Describe the passes before any of them is recorded."""
        graphs = self.no_graphs or f"{len(self.shapes)} sizes"
        return {"attention": dict(self.attention), "kernels": self.kernels, "graphs": graphs}


@dataclass
class RecordedShapes:
    """Batch shapes of a model that have a CUDA graph, and those whose recording failed.

    wanted: whether any is recorded. plan, seconds: the plan, and the time of the recording; set by
    an encoder that is warm, on a GPU.
    """

    wanted: bool = True
    recorded: list[BatchShape] = field(default_factory=list)
    failed: list[BatchShape] = field(default_factory=list)
    plan: PassPlan | None = None
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Describe them, and the passes; the state is "off" if no shape has a graph."""
        description: dict[str, Any] = {"state": "on" if self.recorded else "off"}
        description["failed"] = [
            {"tokens": each.rows, "texts": each.max_sequences, "longest": each.max_length}
            for each in self.failed
        ]
        if self.plan:
            description |= {"recorded": len(self.recorded), "seconds": round(self.seconds, 1)}
            description |= {"attention": dict(self.plan.attention), "kernels": self.plan.kernels}
            description |= {"reason": self.plan.no_graphs} if self.plan.no_graphs else {}
        return description
