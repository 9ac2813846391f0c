"""Shapes of batches, and which of them a GPU has recorded."""

from collections.abc import Sequence
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


@dataclass
class RecordedShapes:
    """Batch shapes of a model that have a CUDA graph, and those whose recording failed.

    attention: the number of layers on a GPU by the kernel of their attention.
    """

    recorded: list[BatchShape] = field(default_factory=list)
    failed: list[BatchShape] = field(default_factory=list)
    attention: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Describe them; the state is "off" if no shape has a graph."""
        return {
            "state": "on" if self.recorded else "off",
            "failed": [
                {"tokens": each.rows, "texts": each.max_sequences, "longest": each.max_length}
                for each in self.failed
            ],
            **({"attention": self.attention} if self.attention else {}),
        }
