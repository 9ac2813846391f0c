"""Shapes of batches, and which of them a GPU has recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class BatchShape:
    """Tensor sizes of a forward pass; batches of one shape launch the same GPU kernels.

    rows: number of rows of the hidden states. max_sequences: maximum number of sequences.
    max_length: maximum number of rows of a sequence, and of padding rows.
    """

    rows: int
    max_sequences: int
    max_length: int

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "BatchShape":
        """Return the shape of sequences; the number of rows is rounded up, so that shapes recur."""
        tokens = sum(lengths)
        rows = rounded_rows(tokens)
        return cls(rows, len(lengths), max(rows - tokens, *lengths))


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
                {"tokens": shape.rows, "texts": shape.max_sequences} for shape in self.failed
            ],
            **({"attention": self.attention} if self.attention else {}),
        }
