"""Smaller variants of vectors: fewer dimensions, and output types with fewer bits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click
import numpy as np

from embedwell.routes.common.response_body import OutputType
from embedwell_models.vectors import Floats, quantize, truncate_and_normalize

_BITS = {"float32": 32, "float16": 16, "int8": 8, "uint8": 8, "binary": 1, "ubinary": 1}


@dataclass(frozen=True)
class Variant:
    """The first dimensions of a vector, normalised, in an output type."""

    dimensions: int
    output_type: OutputType

    @property
    def num_bytes(self) -> int:
        """Size of a stored vector."""
        return -(-self.dimensions * _BITS[self.output_type] // 8)

    def apply(self, vectors: Floats) -> Floats:
        """Convert vectors to this variant, as floats to compare: (B, D) -> (B, dimensions).

        A set bit becomes 1 and any other -1, so that cosine and Hamming distance give the same
        order.
        """
        stored = quantize(
            truncate_and_normalize(vectors, self.dimensions, normalized=True), self.output_type
        )
        match self.output_type:
            case "uint8":
                return stored.astype(np.float32) - 128
            case "ubinary":
                return _signs(stored.astype(np.uint8), self.dimensions)
            case "binary":
                return _signs((stored.astype(np.int16) + 128).astype(np.uint8), self.dimensions)
        return stored.astype(np.float32)


@dataclass(frozen=True)
class Result:
    """Scores of a task with a variant of a precision's vectors."""

    task: str
    precision: str
    variant: Variant
    scores: Mapping[str, float]

    @property
    def main(self) -> tuple[str, float]:
        """Name and value of the main score."""
        return next(iter(self.scores.items()))


def variants(
    dim: int, dimensions: Sequence[int], output_types: Sequence[OutputType]
) -> list[Variant]:
    """Combine the dimensions (default: all) with the output types (default: float32).

    Raises ClickException for more dimensions than the vectors have.
    """
    if max(dimensions, default=0) > dim:
        raise click.ClickException(
            f"{max(dimensions)} dimensions were requested, but the vectors have {dim}"
        )
    return [
        Variant(count, output_type)
        for count in dimensions or [dim]
        for output_type in output_types or ["float32"]
    ]


def _signs(packed: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], dimensions: int) -> Floats:
    bits = np.unpackbits(packed, axis=1, count=dimensions)
    return bits.astype(np.float32) * 2 - 1
