"""Score vectors on tasks: variants of them with fewer bits, and baselines that need no model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import click
import numpy as np

from embedwell.routes.common.response_body import OutputType
from embedwell_models.read.prompts import Role
from embedwell_models.vectors import Floats, quantize, truncate_and_normalize

_COMPONENT_BITS = {"float32": 32, "float16": 16, "int8": 8, "uint8": 8, "binary": 1, "ubinary": 1}


@dataclass(frozen=True)
class Variant:
    """The first dimensions of a vector, normalised, in an output type."""

    dimensions: int
    output_type: OutputType

    @property
    def num_bytes(self) -> int:
        """Size of a stored vector."""
        return -(-self.dimensions * _COMPONENT_BITS[self.output_type] // 8)

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


@dataclass(frozen=True)
class Inputs:
    """Texts to embed with the prompt of a role; None for the model's default prompt."""

    texts: Sequence[str]
    role: Role | None = None


class Task(Protocol):
    """Texts with known results, from a file, by which vectors are scored."""

    @property
    def name(self) -> str:
        """Name of the task and its file."""

    @property
    def inputs(self) -> Sequence[Inputs]:
        """Return the texts whose vectors the task needs."""

    def scores(self, *vectors: Floats) -> Mapping[str, float]:
        """Return scores from 0 to 100 (correlations from -100), the main score first.

        vectors: (B, D) for each of the inputs.
        """


Embed = Callable[[Sequence[str], Role | None], Floats]
"""Computes the vectors of B texts, with the prompt of a role: (B, D)."""


def score(
    tasks: Sequence[Task],
    embed: Embed,
    precision: str,
    dimensions: Sequence[int] = (),
    output_types: Sequence[OutputType] = (),
) -> Iterator[Result]:
    """Return the scores of each task with each variant of the vectors.

    A text is embedded once for each role, even if several tasks have it. Raises ClickException for
    more dimensions than the vectors have.
    """
    vectors_of = _embed_all([inputs for task in tasks for inputs in task.inputs], embed)
    for task in tasks:
        sides = [vectors_of(inputs) for inputs in task.inputs]
        dim = sides[0].shape[1]
        for variant in variants(dim, dimensions, output_types):
            scores = task.scores(*map(variant.apply, sides))
            yield Result(task.name, precision, variant, scores)


def _embed_all(all_inputs: Sequence[Inputs], embed: Embed) -> Callable[[Inputs], Floats]:
    texts: dict[Role | None, dict[str, int]] = {}
    for inputs in all_inputs:
        rows = texts.setdefault(inputs.role, {})
        for text in inputs.texts:
            rows.setdefault(text, len(rows))
    vectors: Mapping[Role | None, Floats] = {
        role: embed(list(rows), role) for role, rows in texts.items()
    }
    return lambda inputs: vectors[inputs.role][[texts[inputs.role][text] for text in inputs.texts]]


BASELINE_DIMENSIONS = 8192  # a hash assigns counts to dimensions
_BASELINE_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "one-hot": {"binary": True},
    "bag-of-words": {},
    "n-grams": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}
BASELINES = tuple(_BASELINE_OPTIONS)
"""one-hot: presence of each word. bag-of-words: count of each word. n-grams: counts of 3 to 5
characters inside words."""


def baseline(name: str) -> Embed:
    """Return what computes vectors (B, BASELINE_DIMENSIONS) by scikit-learn, without fitting.

    name: one of BASELINES.
    """
    from sklearn.feature_extraction.text import (  # type: ignore[import-untyped]
        HashingVectorizer,
    )

    vectorizer = HashingVectorizer(
        n_features=BASELINE_DIMENSIONS,
        alternate_sign=False,
        norm=None,
        **_BASELINE_OPTIONS[name],
    )
    return lambda texts, role: vectorizer.transform(texts).toarray().astype(np.float32)
