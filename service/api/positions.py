"""GET and POST /positions: position encodings as numbers, of any scheme or the model's own."""

import re
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import Field, model_validator

from models.config.encoder_config import EncoderConfig
from models.positions.schemes import Learned
from models.positions.tables import Ints
from models.vectors import Floats
from service.api.answer import context_of, large_answer
from service.api.body import FIRST, Body, example
from service.api.encoding import Encoding, numbers
from service.api.operation import Operation
from service.api.output import Array, raw
from service.api.responses import ENGINE, Responses
from service.api.scheme import complete
from service.api.shapes.tokens import PositionsAnswer
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


_PATH, _SUMMARY, _TAG = "/positions", "Position encodings", "positions"
_RESPONSES = Responses(PositionsAnswer, raw=True)
_SMALL = 1 << 16  # numbers, of a millisecond
_GROUPED = re.compile(r"\d_\d")  # pydantic reads it as Python does, and nobody else


def operation(
    pipeline: Pipeline, config: EncoderConfig, biases: Floats | None, max_values: int
) -> Operation[PositionsRequest]:
    """The operation of this module. biases: the model's trained ones, if any: (buckets, H)."""

    async def positions(context: RequestContext, body: PositionsRequest) -> Any:
        asked = body.encoding(config)
        check_values(asked.values, max_values)
        context.memory.grow_by_numbers(asked.values)
        match asked.scheme:
            case Learned(padding=padding):
                found = await _learned(context, asked.positions, padding)
            case scheme:
                work = partial(numbers, scheme, asked)
                found = await run_in_thread(work, asked.values <= _SMALL)
        if asked.trained and biases is not None and "buckets" in found:
            found["bias"] = np.ascontiguousarray(biases.T[:, found["buckets"]])
        if (table := _table(found)) is not None and (answer := raw(context, table)):
            return answer
        return {
            "scheme": asked.name,
            "parameters": asked.parameters,
            "positions": asked.positions,
            **found,
        }

    async def _learned(context: RequestContext, rows: Ints, padding: int) -> dict[str, Any]:
        last = rows.max()
        if last >= config.max_positions:
            raise BadRequest(
                f"position {last} is not in the model's table of {config.max_positions}",
                param="positions",
            )
        # The position part of a text is the table's beginning; of one without padding.
        text = TokenizedInput(np.full(last + 1, int(padding == 0), dtype=np.int32), 0)
        table = await pipeline.submit(context, [text], "position")
        return {"vectors": table[rows]}

    return Operation(_PATH, PositionsRequest, positions, _SUMMARY, _TAG, _RESPONSES)


def router(post: Operation[PositionsRequest]) -> APIRouter:
    """The same by GET, with the fields of the body in the query."""
    routes = APIRouter(tags=[_TAG])
    bodiless = [status for status in ENGINE if status not in (408, 415)]
    described = replace(_RESPONSES, errors=bodiless).describe()

    @routes.get(_PATH, summary=_SUMMARY, openapi_extra={**described, "parameters": _query()})
    async def get(request: Request) -> Response:
        fields: dict[str, Any] = dict(request.query_params)
        for name, value in fields.items():
            if _GROUPED.search(value):
                raise BadRequest(f"{name}: a number is written without _", param=name)
        if "positions" in fields:
            fields["positions"] = fields["positions"].split(",")
        body = PositionsRequest.model_validate(fields, strict=False)
        context = context_of(request)
        return await large_answer(context, await post.work(context, body))

    return routes


def _table(found: dict[str, Any]) -> Array | None:
    """What is answered as bytes: the one table, or cos above sin; None where there is none."""
    if "cos" in found:
        return np.stack([found["cos"], found["sin"]])
    return next((found[name] for name in ("vectors", "bias", "buckets") if name in found), None)


def _query() -> list[dict[str, Any]]:
    told = PositionsRequest.model_json_schema()
    shown = told["examples"][0]
    found = []
    for name, schema in told["properties"].items():
        # A query has no null.
        field = {"name": name, "in": "query", "explode": False, "schema": schema["anyOf"][0]}
        found.append({**field, "example": shown[name]} if name in shown else field)
    return found
