"""Sparse vectors in requests and responses."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, PositiveInt

from embedwell.api.options_body import PromptBody
from embedwell.inference.pipeline import Pipeline
from embedwell_models.outputs.names import SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import SparseVector

TopK = PositiveInt | None
MinWeight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def sparse_output_name(pipeline: Pipeline, body: PromptBody) -> str:
    """Return the name of the output: that of queries for a query, if the model has one."""
    is_query = "query" in (body.role, body.prompt_name)
    return SPARSE_QUERY if is_query and SPARSE_QUERY in pipeline.output_names else SPARSE


def keep_largest(vector: SparseVector, top_k: int | None, min_weight: float) -> SparseVector:
    """Keep the largest `top_k` weights among those of at least `min_weight`."""
    chosen = np.flatnonzero(vector.weights >= min_weight)
    if top_k is not None and top_k < len(chosen):
        largest = np.argsort(-vector.weights[chosen], kind="stable")[:top_k]
        chosen = np.sort(chosen[largest])
    return SparseVector(vector.indices[chosen], vector.weights[chosen])


def response_numbers(vectors: Sequence[SparseVector]) -> int:
    """Count the numbers of a response: an index and a weight for each entry."""
    return 2 * sum(len(vector.indices) for vector in vectors)


def as_arrays(vector: SparseVector) -> dict[str, Any]:
    """Describe a vector by two arrays, as in Qdrant and Pinecone."""
    return {"indices": vector.indices, "values": vector.weights}


def as_pairs(vector: SparseVector) -> list[dict[str, int | float]]:
    """Describe a vector by an object for each entry, as in TEI."""
    entries = zip(vector.indices.tolist(), vector.weights, strict=True)
    return [{"index": index, "value": weight} for index, weight in entries]
