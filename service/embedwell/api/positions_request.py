"""Request of /positions, as a body or a query string."""

import re
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from embedwell.api.body import FAIL_FAST, Body, examples
from embedwell.api.position_encoding import PositionEncoding
from embedwell.api.position_options import resolve_encoding
from embedwell_models.config.encoder_config import EncoderConfig

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

    - `positions`: a list of positions; or `count`, for 0 … count - 1.
    - `model`: name of a served model. Default: the first one.
    - `layer`: selects one of the model's own schemes: 0 for the input, 1 … L for the attention of
      that layer. Default: the first one with positions.

    Options of the scheme. An absent option has the model's value if the scheme is the model's own,
    otherwise a common default.

    - `dim` (sinusoidal, transformer_xl, rotary): dimensions of the vectors; for rotary, of the
      rotated part of a head.
    - `base` (sinusoidal, transformer_xl, rotary): base of the angles.
    - `interleaved` (rotary): rotate columns 2i and 2i + 1 instead of i and i + dim / 2.
    - `scaling` (rotary): how it is extended to longer texts: default, linear, dynamic, ntk, yarn or
      llama3. Options of a scaling: `factor`, `original` (tokens of the training's texts), `length`
      (tokens of the text), `magnitude`, `fast`, `slow`, `whole`.
    - `heads`, `steepest`, `causal` (alibi): the last head's slope is 2 to the power of minus
      `steepest`.
    - `buckets`, `max_distance` (relative, mpnet, disentangled): for disentangled, 0 buckets are
      plain distances.
    - `bidirectional` (relative, mpnet).
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


_GROUPED_DIGITS = re.compile(r"\d_\d")  # pydantic accepts 1_000 as Python does


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
