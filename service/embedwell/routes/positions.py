"""GET and POST /positions: the tables of position schemes, the model's own or others."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
from fastapi import APIRouter, Query, Response
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from embedwell.compute.position_encoding import (
    PositionEncoding,
    PositionTables,
    compute_tables,
    resolve_encoding,
)
from embedwell.compute.request_limits import check_response_numbers
from embedwell.compute.served_model import ServedModel
from embedwell.compute.work_queue import run_in_thread
from embedwell.errors import BadRequest
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import FAIL_FAST, Body, examples
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.openapi_responses import ENGINE_ERRORS, route_responses
from embedwell.routes.common.response_body import (
    Array,
    BinaryResponse,
    Matrix,
    as_lists,
    binary_response,
    fastapi_response,
)
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.positions.schemes import Learned
from embedwell_models.positions.tables import Ints
from embedwell_models.read.inputs import InputRow
from embedwell_models.vectors import Floats

_GROUPED_DIGITS = re.compile(r"\d_\d")  # pydantic accepts 1_000 as Python does
_FEW_VALUES = 1 << 16  # computed in a millisecond
SchemeName = Literal[
    "none",
    "sinusoidal",
    "learned",
    "rotary",
    "alibi",
    "relative",
    "mpnet",
    "disentangled",
    "transformer_xl",
]

Position = Annotated[int, Field(ge=0, le=1_000_000)]
Size = Annotated[int, Field(ge=1, le=65_536)]
Length = Annotated[int, Field(ge=1, le=1_000_001)]
Factor = Annotated[float, Field(ge=1, le=1_000_000)]
PositiveNumber = Annotated[float, Field(ge=1e-6, le=1_000_000)]


class PositionsRequest(Body):
    """Request body of /positions. Without `scheme`, the model's own scheme is used.

    - `scheme`: name of a position scheme. Default: the model's own.
    - `positions`: the positions to encode, from 0 to 1000000. Give `positions` or `count`.
    - `count`: encode the positions 0 … count - 1. Default: 16.
    - `model`: name of a served model, whose scheme and sizes are the defaults. Default: the first
      one.
    - `layer`: selects one of the model's own schemes: 0 for the input, 1 … L for the attention of
      that layer. Default: the first one with positions.
    - `dim`: of sinusoidal, transformer_xl and rotary: number of dimensions of the vectors; for
      rotary, of the rotated part of a head.
    - `base`: of sinusoidal, transformer_xl and rotary: base of the angles' geometric sequence.
    - `interleaved`: of rotary: whether columns 2i and 2i + 1 are rotated together instead of i and
      i + dim / 2.
    - `scaling`: of rotary: how it is extended to texts longer than those of the training. All but
      `default` need `factor`.
    - `factor`: of a scaling: how much longer texts may be than those of the training.
    - `original`: of a scaling: tokens of the longest text of the training.
    - `length`: of the scaling dynamic: tokens of the text. Default: the last position + 1.
    - `magnitude`: of the scaling yarn: factor of cos and sin.
    - `fast`: of the scalings yarn and llama3: turns within `original` tokens above which a
      frequency is kept.
    - `slow`: of the scalings yarn and llama3: turns within `original` tokens below which a
      frequency is divided by `factor`.
    - `whole`: of the scaling yarn: whether the first and last column of the interpolation are
      rounded.
    - `heads`: of alibi: number of attention heads.
    - `steepest`: of alibi: the last head's slope is 2 to the power of minus this.
    - `causal`: of alibi: whether a token sees only those before it; the bias of later ones is null.
    - `buckets`: of relative, mpnet and disentangled: number of buckets of distances; for
      disentangled, 0 buckets are plain distances.
    - `max_distance`: of relative, mpnet and disentangled: distance in tokens from which all are in
      the last bucket.
    - `bidirectional`: of relative and mpnet: whether tokens before and after have different
      buckets.

    Options of the scheme. An absent option has the model's value if the scheme is the model's own,
    otherwise a common default.
    """

    model_config = examples(
        {"scheme": "rotary", "count": 2, "dim": 8},
        {},
        {"scheme": "alibi", "heads": 2, "positions": [0, 1, 5]},
        {"scheme": "relative", "count": 3, "buckets": 8},
        {"scheme": "transformer_xl", "count": 3, "dim": 4},
    )

    scheme: SchemeName | None = None
    model: str | None = None
    layer: Annotated[int, Field(ge=0)] | None = None
    positions: Annotated[list[Position], Field(min_length=1), FAIL_FAST] | None = None
    count: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    dim: Size | None = None
    base: Annotated[float, Field(gt=1, le=1e15)] | None = None
    interleaved: bool | None = None
    scaling: Literal["default", "linear", "dynamic", "ntk", "yarn", "llama3"] | None = None
    factor: Factor | None = None
    original: Length | None = None
    length: Length | None = None
    magnitude: PositiveNumber | None = None
    fast: PositiveNumber | None = None
    slow: PositiveNumber | None = None
    whole: bool | None = None
    heads: Annotated[int, Field(ge=1, le=1024)] | None = None
    steepest: Annotated[float, Field(gt=0, le=1024)] | None = None
    causal: bool | None = None
    buckets: Annotated[int, Field(ge=0, le=4096)] | None = None
    max_distance: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    bidirectional: bool | None = None

    @model_validator(mode="after")
    def _check_positions(self) -> "PositionsRequest":
        if self.positions is not None and self.count is not None:
            raise ValueError("give either positions or count, not both")
        return self

    def encoding(self, config: EncoderConfig) -> PositionEncoding:
        """Resolve the requested encoding for a model; raises BadRequest."""
        positions = range(self.count or 16) if self.positions is None else self.positions
        fields = self.model_dump(exclude={"scheme", "model", "layer", "positions", "count"})
        options = {name: value for name, value in fields.items() if value is not None}
        array = np.array(positions, dtype=np.int64)
        return resolve_encoding(config, self.scheme, self.layer, array, options)


def _split_commas(items: Any) -> Any:
    return items and [number for item in items for number in item.split(",")]


class PositionsQuery(PositionsRequest):
    """The fields of PositionsRequest in a query string, with commas between positions."""

    model_config = ConfigDict(strict=False)

    positions: Annotated[
        Annotated[list[Position], Field(min_length=1), FAIL_FAST] | None,
        BeforeValidator(_split_commas),
    ] = None

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_grouped_digits(cls, value: Any) -> Any:
        if _GROUPED_DIGITS.search(str(value)):
            raise ValueError("write the number without underscores")
        return value


@forbid_extra
class PositionsResponse(TypedDict):
    """Response of /positions. Arrays that the scheme does not have are absent.

    - `parameters`: every option of the scheme.
    - `scheme`: name of the scheme.
    - `positions`: the positions that were encoded.
    - `vectors`: a vector for each position, or for each of `distances`.
    - `pairs`: of rotary: the two columns that each angle rotates.
    - `cos`, `sin`: of rotary: cosine or sine of each angle, in a row for each position.
    - `slopes`: of alibi: slope of each head.
    - `bias`: for each head, what is added to the attention of each query (row) to each key; null
      where it cannot see.
    - `buckets`: of relative, mpnet and disentangled: bucket of each query (row) and key.
    - `distances`: of transformer_xl: query minus key, for each of `vectors`.
    """

    scheme: str
    parameters: dict[str, int | float | bool | str | None]
    positions: list[NonNegativeInt]
    vectors: NotRequired[Matrix]
    pairs: NotRequired[list[list[int]]]
    cos: NotRequired[Matrix]
    sin: NotRequired[Matrix]
    slopes: NotRequired[list[float]]
    bias: NotRequired[list[list[list[float | None]]]]
    buckets: NotRequired[list[list[int]]]
    distances: NotRequired[list[int]]


@dataclass(frozen=True)
class PositionService:
    """Computes position encodings."""

    model: ServedModel

    @cached_property
    def bias_table(self) -> Floats | None:
        """The model's trained relative biases, if any: (buckets, H)."""
        return self.model.description.bias_table()

    async def encode(
        self, context: RequestContext, body: PositionsRequest
    ) -> PositionsResponse | BinaryResponse:
        """Respond to /positions."""
        encoding = body.encoding(self.model.config)
        check_response_numbers(encoding.value_bound, self.model.settings.max_values)
        context.memory.grow_by_numbers(encoding.value_bound)
        match encoding.scheme:
            case Learned(padding=padding):
                tables = await self._learned_table(context, encoding.positions, padding)
            case _:
                small = encoding.value_bound <= _FEW_VALUES
                tables = await run_in_thread(compute_tables, encoding, small=small)
        if encoding.trained and "buckets" in tables and self.bias_table is not None:
            tables["bias"] = np.ascontiguousarray(self.bias_table.T[:, tables["buckets"]])
        array = _binary_array(tables)
        if array is not None and (response := binary_response(context, array)):
            return response
        answer: PositionsResponse = {
            "scheme": encoding.name,
            "parameters": encoding.parameters,
            "positions": as_lists(encoding.positions),
        }
        lists: Any = tables
        answer.update(lists)
        return answer

    async def _learned_table(
        self, context: RequestContext, positions: Ints, padding_id: int
    ) -> PositionTables:
        last, size = positions.max(), self.model.config.max_positions
        if last >= size:
            raise BadRequest(
                f"position {last} is not in the model's table of {size} positions, which "
                "begins at 0",
                param="positions",
            )
        # The position part of this input is the start of the table. Padding has no position.
        ids = np.full(last + 1, int(padding_id == 0), dtype=np.int32)
        (table,) = await self.model.pipeline.hidden(context, [InputRow(ids, 0)], "position")
        return {"vectors": table[positions]}


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes of /positions: POST, and GET with the same fields in the query string."""
    models = registry.choice(PositionService)
    routes = api_router("tokens", ())

    @routes.post(
        "/positions",
        summary="Compute position encodings",
        response_model=PositionsResponse,
        responses=route_responses(binary=True),
    )
    async def positions(
        context: RequestDep, body: PositionsRequest
    ) -> PositionsResponse | BinaryResponse:
        return await models.choose(body.model).encode(context, body)

    errors_without_body = [s for s in ENGINE_ERRORS if s not in (408, 415)]

    @routes.get(
        "/positions",
        summary="Compute position encodings",
        response_model=PositionsResponse,
        responses=route_responses(errors_without_body, binary=True),
    )
    async def get_positions(
        context: RequestDep, query: Annotated[PositionsQuery, Query()]
    ) -> Response:
        service = models.choose(query.model)
        return await fastapi_response(context, await service.encode(context, query))

    return routes


def _binary_array(tables: PositionTables) -> Array | None:
    """Return the array for a binary response: cos stacked on sin, or the scheme's only table."""
    if "cos" in tables:
        return np.stack([tables["cos"], tables["sin"]])
    return next((tables[name] for name in ("vectors", "bias", "buckets") if name in tables), None)
