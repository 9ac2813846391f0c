"""Partial success: a vector or an error for each input, in the request's order."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from embedwell.api.array_format import OutputType, encode_rows, float16_overflow, rows_not_finite
from embedwell.errors import ServiceError
from embedwell.inference.item_result import ItemResult
from embedwell.request.error_body import describe
from embedwell_models.vectors import Floats, quantize


def stack_vectors(results: Sequence[ItemResult], dim: int) -> Floats:
    """Stack the vectors of the inputs that did not fail: (at most B, dim)."""
    vectors = [result[1] for result in results if not isinstance(result, ServiceError)]
    return np.stack(vectors) if vectors else np.empty((0, dim), dtype=np.float32)


def partial_results(
    results: Sequence[ItemResult], vectors: Floats, dtype: OutputType, encoding_format: str
) -> list[dict[str, Any]]:
    """Describe each input's vector or error for JSON.

    vectors: the finished vectors of the inputs that did not fail.
    """
    values = quantize(vectors, dtype)
    overflowed = set(rows_not_finite(values).tolist()) if dtype == "float16" else set()
    rows = iter(enumerate(encode_rows(values, encoding_format)))
    described: list[dict[str, Any]] = []
    for index, result in enumerate(results):
        if isinstance(result, ServiceError):
            result.name_field(["inputs"])
            described.append({"error": describe(result)})
            continue
        row, embedding = next(rows)
        if row in overflowed:
            described.append({"error": describe(float16_overflow(index))})
        else:
            described.append({"embedding": embedding, **result[0].as_json()})
    return described
