"""GET and POST /positions: position encodings as numbers, of any scheme or the model's own."""

import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Response
from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from models.config.encoder_config import EncoderConfig
from models.positions.schemes import Learned
from models.positions.tables import Ints
from models.vectors import Floats
from service.api.array_format import Array, raw
from service.api.body import FIRST, Body, example
from service.api.fastapi_response import large_response
from service.api.openapi_responses import ENGINE, documented
from service.api.position_encoding import Encoding, numbers
from service.api.position_options import complete
from service.api.router import Context, api_router
from service.api.schemas.tokens import PositionsAnswer
from service.errors import BadRequest
from service.inference.pipeline import Pipeline
from service.inputs.tokenized_input import TokenizedInput
from service.request.limits import check_values
from service.request.request_context import RequestContext
from service.request.run_in_thread import run_in_thread

Name = Literal[
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
Number = Annotated[float, Field(ge=1e-6, le=1_000_000)]


class PositionsRequest(Body):
    """scheme: by default the model's own. positions, or count for 0 … count - 1.

    layer: of the model's own schemes, 0 the input, 1 … L the attention of that layer; by default
    the first one that has positions. What is not given below is taken from the served model where
    the scheme is its own, and is else what is usual.

    dim: of the vectors (sinusoidal, transformer_xl) or of what is turned in a head (rotary).
    base: of the angles (the same three).
    interleaved: rotary turns columns 2i and 2i + 1, not i and i + dim / 2. scaling: how rotary is
    stretched: default, linear, dynamic, ntk, yarn or llama3; factor, original (length of the
    training), length (of the text), magnitude, fast, slow and whole belong to it.
    heads, steepest, causal: alibi; the last head's slope is 2 to the power of minus steepest.
    buckets, max_distance: relative, mpnet and disentangled, where 0 buckets are plain distances.
    bidirectional: relative and mpnet.
    """

    model_config = example(
        {},
        {"scheme": "alibi", "heads": 2, "positions": [0, 1, 5]},
        {"scheme": "relative", "count": 3, "buckets": 8},
        {"scheme": "transformer_xl", "count": 3, "dim": 4},
        scheme="rotary",
        count=2,
        dim=8,
    )

    scheme: Name | None = None
    layer: Annotated[int, Field(ge=0)] | None = None
    positions: Annotated[list[Position], Field(min_length=1), FIRST] | None = None
    count: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    dim: Size | None = None
    base: Annotated[float, Field(gt=1, le=1e15)] | None = None
    interleaved: bool | None = None
    scaling: Literal["default", "linear", "dynamic", "ntk", "yarn", "llama3"] | None = None
    factor: Factor | None = None
    original: Length | None = None
    length: Length | None = None
    magnitude: Number | None = None
    fast: Number | None = None
    slow: Number | None = None
    whole: bool | None = None
    heads: Annotated[int, Field(ge=1, le=1024)] | None = None
    steepest: Annotated[float, Field(gt=0, le=1024)] | None = None
    causal: bool | None = None
    buckets: Annotated[int, Field(ge=0, le=4096)] | None = None
    max_distance: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    bidirectional: bool | None = None

    @model_validator(mode="after")
    def _one_list(self) -> "PositionsRequest":
        if self.positions is not None and self.count is not None:
            raise ValueError("give positions or count, not both")
        return self

    def encoding(self, config: EncoderConfig) -> Encoding:
        """The encoding that is asked for."""
        listed = range(self.count or 16) if self.positions is None else self.positions
        rows = np.array(listed, dtype=np.int64)
        fields = self.model_dump(exclude={"scheme", "layer", "positions", "count"})
        given = {name: value for name, value in fields.items() if value is not None}
        return complete(config, self.scheme, self.layer, rows, given)


_SMALL = 1 << 16  # numbers, of a millisecond
_GROUPED = re.compile(r"\d_\d")  # pydantic reads it as Python does, and nobody else


def _split(items: Any) -> Any:
    return items and [number for item in items for number in item.split(",")]


class PositionsQuery(PositionsRequest):
    """The same in a query, where positions are separated by commas."""

    model_config = ConfigDict(strict=False)

    positions: Annotated[
        Annotated[list[Position], Field(min_length=1), FIRST] | None, BeforeValidator(_split)
    ] = None

    @field_validator("*", mode="before")
    @classmethod
    def _as_in_json(cls, value: Any) -> Any:
        if _GROUPED.search(str(value)):
            raise ValueError("a number is written without _")
        return value


@dataclass(frozen=True)
class Positions:
    """What both routes do.

    biases: the model's trained ones, if any: (buckets, H). max_values: the most numbers of a
    response.
    """

    pipeline: Pipeline
    config: EncoderConfig
    biases: Floats | None
    max_values: int

    async def encode(self, context: RequestContext, body: PositionsRequest) -> Any:
        asked = body.encoding(self.config)
        check_values(asked.values, self.max_values)
        context.memory.grow_by_numbers(asked.values)
        match asked.scheme:
            case Learned(padding=padding):
                tables = await self._learned(context, asked.positions, padding)
            case scheme:
                work = partial(numbers, scheme, asked)
                tables = await run_in_thread(work, asked.values <= _SMALL)
        if asked.trained and self.biases is not None and "buckets" in tables:
            tables["bias"] = np.ascontiguousarray(self.biases.T[:, tables["buckets"]])
        table = _table(tables)
        if table is not None and (response := raw(context, table)):
            return response
        return {
            "scheme": asked.name,
            "parameters": asked.parameters,
            "positions": asked.positions,
            **tables,
        }

    async def _learned(self, context: RequestContext, rows: Ints, padding: int) -> dict[str, Any]:
        last, size = rows.max(), self.config.max_positions
        if last >= size:
            raise BadRequest(
                f"position {last} is not in the model's table of {size}", param="positions"
            )
        # The position part of a text is the table's beginning; of one without padding.
        text = TokenizedInput(np.full(last + 1, int(padding == 0), dtype=np.int32), 0)
        table = await self.pipeline.submit(context, [text], "position")
        return {"vectors": table[rows]}


def router(positions: Positions) -> APIRouter:
    """The routes of this module: POST, and GET with the fields of the body in the query."""
    routes = api_router("positions")

    @routes.post(
        "/positions",
        summary="Position encodings",
        response_model=PositionsAnswer,
        responses=documented(raw=True),
        name="positions",
    )
    async def post(context: Context, body: PositionsRequest) -> Any:
        return await positions.encode(context, body)

    without_body = [status for status in ENGINE if status not in (408, 415)]

    @routes.get(
        "/positions",
        summary="Position encodings",
        response_model=PositionsAnswer,
        responses=documented(without_body, raw=True),
        name="get_positions",
    )
    async def get(context: Context, query: Annotated[PositionsQuery, Query()]) -> Response:
        return await large_response(context, await positions.encode(context, query))

    return routes


def _table(tables: dict[str, Any]) -> Array | None:
    """What is answered as bytes: the one table, or cos above sin; None where there is none."""
    if "cos" in tables:
        return np.stack([tables["cos"], tables["sin"]])
    return next((tables[name] for name in ("vectors", "bias", "buckets") if name in tables), None)
