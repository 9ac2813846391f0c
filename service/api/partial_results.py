"""Partial success: a vector or an error for each input, in its place."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.vectors import Floats, quantize
from service.api.array_format import OutputType, beyond, express, overflown
from service.errors import ServiceError
from service.inference.item_result import ItemResult
from service.request.error_body import describe


def good(outcomes: Sequence[ItemResult], dim: int) -> Floats:
    """The vectors that there are: (at most B, dim)."""
    vectors = [outcome[1] for outcome in outcomes if not isinstance(outcome, ServiceError)]
    return np.stack(vectors) if vectors else np.empty((0, dim), dtype=np.float32)


def results(
    outcomes: Sequence[ItemResult], vectors: Floats, dtype: OutputType, encoding: str
) -> list[dict[str, Any]]:
    """What an answer tells of each input. vectors: finished ones, of those that have any."""
    values = quantize(vectors, dtype)
    lost = set(overflown(values).tolist()) if dtype == "float16" else set()
    shown = iter(enumerate(express(values, encoding)))
    found: list[dict[str, Any]] = []
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, ServiceError):
            found.append({"error": describe(outcome)})
            continue
        place, embedding = next(shown)
        if place in lost:
            found.append({"error": describe(beyond(index))})
        else:
            found.append({"embedding": embedding, **outcome[0].as_json()})
    return found
