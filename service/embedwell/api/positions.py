"""GET and POST /positions: the tables of position schemes, the model's own or others."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Response

from embedwell.api.array_format import Array
from embedwell.api.binary_response import binary_response
from embedwell.api.fastapi_response import fastapi_response
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import ENGINE_ERRORS, route_responses
from embedwell.api.position_encoding import compute_tables
from embedwell.api.positions_request import PositionsQuery, PositionsRequest
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.tokens import PositionsAnswer
from embedwell.errors import BadRequest
from embedwell.inference.pipeline import Pipeline
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.request.limits import check_response_numbers
from embedwell.request.request_context import RequestContext
from embedwell.request.run_in_thread import run_in_thread
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.positions.schemes import Learned
from embedwell_models.positions.tables import Ints
from embedwell_models.vectors import Floats

_FEW_VALUES = 1 << 16  # computed in a millisecond


@dataclass(frozen=True)
class PositionService:
    """Computes position encodings.

    bias_table: the model's trained relative biases, if any: (buckets, H).
    max_values: maximum count of numbers in a response.
    """

    pipeline: Pipeline
    config: EncoderConfig
    bias_table: Floats | None
    max_values: int

    async def encode(self, context: RequestContext, body: PositionsRequest) -> Any:
        """Respond to /positions."""
        encoding = body.encoding(self.config)
        check_response_numbers(encoding.value_bound, self.max_values)
        context.memory.grow_by_numbers(encoding.value_bound)
        match encoding.scheme:
            case Learned(padding=padding):
                tables = await self._learned_table(context, encoding.positions, padding)
            case scheme:
                work = partial(compute_tables, scheme, encoding)
                tables = await run_in_thread(work, encoding.value_bound <= _FEW_VALUES)
        if encoding.trained and self.bias_table is not None and "buckets" in tables:
            tables["bias"] = np.ascontiguousarray(self.bias_table.T[:, tables["buckets"]])
        array = _binary_array(tables)
        if array is not None and (response := binary_response(context, array)):
            return response
        return {
            "scheme": encoding.name,
            "parameters": encoding.parameters,
            "positions": encoding.positions,
            **tables,
        }

    async def _learned_table(
        self, context: RequestContext, positions: Ints, padding_id: int
    ) -> dict[str, Any]:
        last, size = positions.max(), self.config.max_positions
        if last >= size:
            raise BadRequest(
                f"position {last} is not in the model's table of {size} positions, which "
                "begins at 0",
                param="positions",
            )
        # The position part of this input is the start of the table. Padding has no position.
        ids = np.full(last + 1, int(padding_id == 0), dtype=np.int32)
        (table,) = await self.pipeline.hidden(context, [TokenizedInput(ids, 0)], "position")
        return {"vectors": table[positions]}


def router(models: ModelChoice[PositionService]) -> APIRouter:
    """Create the routes of this module: POST, and GET with the same fields in the query string."""
    routes = api_router("positions")

    @routes.post(
        "/positions",
        summary="Compute position encodings",
        response_model=PositionsAnswer,
        responses=route_responses(binary=True),
        name="positions",
    )
    async def post(context: Context, body: PositionsRequest) -> Any:
        return await models.choose(body.model).encode(context, body)

    errors_without_body = [s for s in ENGINE_ERRORS if s not in (408, 415)]

    @routes.get(
        "/positions",
        summary="Compute position encodings",
        response_model=PositionsAnswer,
        responses=route_responses(errors_without_body, binary=True),
        name="get_positions",
    )
    async def get(context: Context, query: Annotated[PositionsQuery, Query()]) -> Response:
        service = models.choose(query.model)
        return await fastapi_response(context, await service.encode(context, query))

    return routes


def _binary_array(tables: dict[str, Any]) -> Array | None:
    """Return the array for a binary response: cos stacked on sin, or the scheme's only table."""
    if "cos" in tables:
        return np.stack([tables["cos"], tables["sin"]])
    return next((tables[name] for name in ("vectors", "bias", "buckets") if name in tables), None)
