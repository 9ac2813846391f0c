"""Request of /positions, as a body and as a query string."""

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
    """scheme: the model's own by default. positions: a list, or count for 0 … count - 1.

    model: one of those that the server has; by default its first one.
    layer: of the model's own schemes: 0 for the input, 1 … L for the attention of that layer; by
    default the first one with positions. Options that are absent are the served model's if the
    scheme is its own, and otherwise common defaults.

    dim: of the vectors (sinusoidal, transformer_xl) or of the part of a head that is rotated
    (rotary). base: of the angles (the same three).
    interleaved: rotary rotates columns 2i and 2i + 1, not i and i + dim / 2. scaling: how rotary is
    extended to longer texts: default, linear, dynamic, ntk, yarn or llama3, with factor, original
    (length of the training), length (of the text), magnitude, fast, slow and whole.
    heads, steepest, causal: alibi; the last head's slope is 2 to the power of minus steepest.
    buckets, max_distance: relative, mpnet and disentangled, where 0 buckets are plain distances.
    bidirectional: relative and mpnet.
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
            raise ValueError("give positions or count, not both")
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
    """The same fields in a query string, with commas between positions."""

    model_config = ConfigDict(strict=False)

    positions: Annotated[
        Annotated[list[Position], Field(min_length=1), FAIL_FAST] | None,
        BeforeValidator(_split_commas),
    ] = None

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_grouped_digits(cls, value: Any) -> Any:
        if _GROUPED_DIGITS.search(str(value)):
            raise ValueError("a number is written without _")
        return value
