"""POST /embed_sparse: sparse vectors, as in TEI."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from fastapi import APIRouter
from pydantic import Field, NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.compute.pipeline import Pipeline
from embedwell.compute.request_limits import ResponseSize
from embedwell.compute.served_model import ServedModel
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import Inputs, examples, input_list
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.options import InputBody, PromptBody
from embedwell.routes.common.response_body import as_lists
from embedwell.routes.common.response_types import SparseArrays
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry
from embedwell_models.outputs.names import SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import SparseVector, TextOutputs

TopK = PositiveInt | None
MinWeight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SparseRequest(InputBody):
    """Request body of /embed_sparse.

    - `inputs`: a text, its token ids, or a list of either.
    - `top_k`: return only so many of the largest weights. Default: all.
    - `min_weight`: return only weights of at least this value. Default: 0, all weights.
    - `input_type`: `query` for a query, if the model distinguishes queries from documents. Default:
      a document.
    """

    model_config = examples(
        {"inputs": ["Hello, world", "A second text"], "top_k": 64, "min_weight": 0.1},
        {"inputs": "Hello, world", "input_type": "query", "truncate": True},
    )

    inputs: Inputs
    top_k: TopK = None
    min_weight: MinWeight = 0.0


@forbid_extra
class SparseEntry(TypedDict):
    """A vocabulary entry and its weight.

    - `index`: id of the vocabulary entry.
    - `value`: weight of the entry, above 0.
    """

    index: NonNegativeInt
    value: float


@dataclass(frozen=True)
class SparseService:
    """Computes sparse vectors."""

    model: ServedModel

    async def embed(self, context: RequestContext, body: SparseRequest) -> list[list[SparseEntry]]:
        """Respond to /embed_sparse."""
        pipeline = self.model.pipeline
        output = sparse_output_name(pipeline, body)
        pipeline.check_outputs([output])
        inputs = input_list(body.inputs)
        rows = await self.model.reader.read(context, inputs, body.options_without_windows())
        size = ResponseSize(context.memory, self.model.settings.max_values)

        def keep(text: TextOutputs) -> SparseVector:
            assert text.sparse is not None
            vector = keep_largest(text.sparse, body.top_k, body.min_weight)
            size.grow(response_numbers(vector))
            return vector

        vectors = await pipeline.compute_in_parts(context, rows, [output], keep)
        return [as_pairs(vector) for vector in vectors]


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /embed_sparse."""
    models = registry.choice(SparseService, SPARSE)
    routes = api_router("embed")

    @routes.post("/embed_sparse", summary="Embed texts as sparse vectors")
    async def embed_sparse(context: RequestDep, body: SparseRequest) -> list[list[SparseEntry]]:
        return await models.choose(body.model, body.task).embed(context, body)

    return routes


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


def response_numbers(vector: SparseVector) -> int:
    """Count the numbers of a vector in a response: an index and a weight for each entry."""
    return 2 * len(vector.indices)


def as_arrays(vector: SparseVector) -> SparseArrays:
    """Describe a vector by two arrays, as in Qdrant and Pinecone."""
    return {"indices": as_lists(vector.indices), "values": as_lists(vector.weights)}


def as_pairs(vector: SparseVector) -> list[SparseEntry]:
    """Describe a vector by an object for each entry, as in TEI."""
    entries = zip(vector.indices.tolist(), vector.weights, strict=True)
    return [{"index": index, "value": weight} for index, weight in entries]
