"""POST /embed_sparse: sparse vectors, as in TEI."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from embedwell.api.body import Inputs, examples, input_list
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import route_responses
from embedwell.api.options_body import InputBody
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.embed import SparseEntry
from embedwell.api.sparse_vectors import (
    MinWeight,
    TopK,
    as_pairs,
    keep_largest,
    response_numbers,
    sparse_output_name,
)
from embedwell.inference.pipeline import Pipeline
from embedwell.request.limits import check_response_numbers
from embedwell.request.request_context import RequestContext


class SparseRequest(InputBody):
    """Request body of /embed_sparse.

    - `inputs`: a text, its token ids, or a list of either.
    - `top_k`: return only so many of the largest weights. Default: all.
    - `min_weight`: return only weights of at least this value.
    - `input_type` or `prompt_name`: "query" for a query, if the model distinguishes queries from
      documents.
    """

    model_config = examples(
        {"inputs": ["Hello, world", "A second text"], "top_k": 64, "min_weight": 0.1},
        {"inputs": "Hello, world", "input_type": "query", "truncate": True},
    )

    inputs: Inputs
    top_k: TopK = None
    min_weight: MinWeight = 0.0


@dataclass(frozen=True)
class SparseService:
    """Computes sparse vectors.

    max_values: maximum count of numbers in a response.
    """

    pipeline: Pipeline
    max_values: int

    async def embed(self, context: RequestContext, body: SparseRequest) -> Any:
        """Respond to /embed_sparse."""
        output = sparse_output_name(self.pipeline, body)
        self.pipeline.check_outputs([output])
        inputs = input_list(body.inputs)
        rows = await self.pipeline.reader.read(context, inputs, body.options_without_windows())
        outputs = await self.pipeline.compute_outputs(context, rows, [output])
        vectors = [
            keep_largest(text_outputs.sparse, body.top_k, body.min_weight)
            for text_outputs in outputs
            if text_outputs.sparse is not None
        ]
        numbers = response_numbers(vectors)
        check_response_numbers(numbers, self.max_values)
        context.memory.grow_by_numbers(numbers)
        return [as_pairs(vector) for vector in vectors]


def router(models: ModelChoice[SparseService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("sparse")

    @routes.post(
        "/embed_sparse",
        summary="Embed texts as sparse vectors",
        response_model=list[list[SparseEntry]],
        responses=route_responses(),
    )
    async def embed_sparse(context: Context, body: SparseRequest) -> Any:
        return await models.choose(body.model, body.task).embed(context, body)

    return routes
