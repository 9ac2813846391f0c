"""GET and POST /positions: position encodings as numbers, of any scheme or the model's own."""

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from models import tables
from models.config import EncoderConfig
from models.vectors import Floats
from service.api.answer import answer, call_of
from service.api.body import Body, example
from service.api.operation import Operation
from service.api.output import Array, raw
from service.call import Call
from service.errors import BadRequest
from service.limits import check_values
from service.pipeline import Pipeline
from service.row import Row

Scheme = Literal["sinusoidal", "learned", "rotary", "alibi", "relative"]
Position = Annotated[int, Field(ge=0, le=1_000_000)]

_OPTIONS = {
    "sinusoidal": {"dim", "base"},
    "learned": set[str](),
    "rotary": {"dim", "base"},
    "alibi": {"heads"},
    "relative": {"buckets", "max_distance", "bidirectional"},
}


class PositionsRequest(Body):
    """scheme: by default the served model's own. positions, or count for 0 … count - 1.

    dim: of the model (sinusoidal) or of a head (rotary), even for rotary. base: of the angles.
    heads: alibi. buckets, max_distance, bidirectional: relative. What is not given is taken
    from the served model.
    """

    model_config = example(scheme="rotary", count=2, dim=8)

    scheme: Scheme = "learned"
    positions: list[Position] | None = None
    count: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    dim: Annotated[int, Field(ge=1, le=65_536)] | None = None
    base: PositiveFloat = 10_000.0
    heads: Annotated[int, Field(ge=1, le=1024)] | None = None
    buckets: Annotated[int, Field(ge=4, le=4096)] = 32
    max_distance: PositiveInt = 128
    bidirectional: bool = True

    @model_validator(mode="after")
    def _fit(self) -> "PositionsRequest":
        foreign = self.model_fields_set - {"scheme", "positions", "count"} - _OPTIONS[self.scheme]
        if foreign:
            raise ValueError(f"scheme {self.scheme!r} has no option {sorted(foreign)[0]!r}")
        if self.positions is not None and self.count is not None:
            raise ValueError("give positions or count, not both")
        if self.scheme == "rotary" and (self.dim or 2) % 2:
            raise ValueError("rotary turns pairs of features: dim must be even")
        if self.scheme == "relative" and self.max_distance <= self.buckets // 2:
            raise ValueError("max_distance must be more than half of buckets")
        return self

    def rows(self) -> tables.Ints:
        listed = range(self.count or 16) if self.positions is None else self.positions
        return np.array(listed, dtype=np.int64)


_PATH, _SUMMARY, _TAG = "/positions", "Position encodings", "positions"


def operation(
    pipeline: Pipeline, config: EncoderConfig, max_values: int
) -> Operation[PositionsRequest]:
    """The operation of this module."""

    async def positions(call: Call, body: PositionsRequest) -> Any:
        rows = body.rows()
        check_values(_values(body, len(rows), config), max_values)
        if body.scheme == "learned":
            found = {"vectors": await _learned(call, rows)}
        else:
            found = _finite(rows, body, config)
        if answer := raw(call, _main(found)):
            return answer
        return {"scheme": body.scheme, "positions": rows, **found}

    async def _learned(call: Call, rows: tables.Ints) -> Floats:
        if len(rows) and rows.max() >= config.max_positions:
            raise BadRequest(
                f"position {rows.max()} is not in the model's table of {config.max_positions}",
                param="positions",
            )
        # The position part of a text that is as long as the table is the table.
        text = Row(np.zeros(config.max_positions, dtype=np.int32), 0)
        table = await pipeline.submit(call, [text], "position")
        return table[rows]

    return Operation(_PATH, PositionsRequest, positions, _SUMMARY, _TAG)


def router(post: Operation[PositionsRequest]) -> APIRouter:
    """The same by GET, with the fields of the body in the query."""
    routes = APIRouter(tags=[_TAG])

    @routes.get(_PATH, summary=_SUMMARY, openapi_extra={"parameters": _query()})
    async def get(request: Request) -> Response:
        fields: dict[str, Any] = dict(request.query_params)
        if "positions" in fields:
            fields["positions"] = fields["positions"].split(",")
        body = PositionsRequest.model_validate(fields, strict=False)
        return answer(await post.work(call_of(request), body))

    return routes


def _sinusoidal(rows: tables.Ints, body: PositionsRequest, config: EncoderConfig) -> dict[str, Any]:
    return {"vectors": tables.sinusoidal(rows, body.dim or config.hidden_size, body.base)}


def _rotary(rows: tables.Ints, body: PositionsRequest, config: EncoderConfig) -> dict[str, Any]:
    cos, sin = tables.rotary(rows, body.dim or config.head_size, body.base)
    return {"cos": cos, "sin": sin}


def _alibi(rows: tables.Ints, body: PositionsRequest, config: EncoderConfig) -> dict[str, Any]:
    heads = body.heads or config.num_heads
    return {"slopes": tables.alibi_slopes(heads), "bias": tables.alibi(rows, heads)}


def _relative(rows: tables.Ints, body: PositionsRequest, config: EncoderConfig) -> dict[str, Any]:
    found = tables.relative_buckets(rows, body.buckets, body.max_distance, body.bidirectional)
    return {"buckets": found}


_SCHEMES = {
    "sinusoidal": _sinusoidal,
    "rotary": _rotary,
    "alibi": _alibi,
    "relative": _relative,
}


def _finite(rows: tables.Ints, body: PositionsRequest, config: EncoderConfig) -> dict[str, Any]:
    with np.errstate(over="ignore", invalid="ignore"):
        found = _SCHEMES[body.scheme](rows, body, config)
    for values in found.values():
        if not np.isfinite(values).all():
            raise BadRequest(
                f"with base {body.base} the angles are beyond what a float holds",
                code="not_finite",
                param="base",
            )
    return found


def _main(found: dict[str, Any]) -> Array:
    """What is answered as bytes: the one table, or cos above sin."""
    if "cos" in found:
        return np.stack([found["cos"], found["sin"]])
    table: Array = found[next(name for name in ("vectors", "bias", "buckets") if name in found)]
    return table


def _values(body: PositionsRequest, rows: int, config: EncoderConfig) -> int:
    width = {
        "sinusoidal": body.dim or config.hidden_size,
        "learned": config.hidden_size,
        "rotary": body.dim or config.head_size,
        "alibi": rows * (body.heads or config.num_heads),
        "relative": rows,
    }
    return rows * width[body.scheme]


def _query() -> list[dict[str, Any]]:
    fields = PositionsRequest.model_json_schema()["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": schema, "explode": False}
        for name, schema in fields.items()
    ]
