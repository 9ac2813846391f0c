"""Shapes: the answers of the routes that tell how the server does."""

from typing import Any, Literal

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from service.api.shapes.common import closed


@closed
class Live(TypedDict):
    status: Literal["live"]


@closed
class Ready(TypedDict):
    status: Literal["ready"]
    queued_tokens: NonNegativeInt


@closed
class Dimensions(TypedDict):
    full: NonNegativeInt
    allowed: Literal["any"] | list[NonNegativeInt]


@closed
class Info(TypedDict):
    """engine: null until it has started."""

    version: str
    model: str
    source: str
    revision: str | None
    engine: dict[str, Any] | None
    engine_restarts: NonNegativeInt
    prompts: dict[str, str]
    default_prompt: str
    auto_truncate: bool
    vector_cache_bytes: int
    dimensions: Dimensions
    int8: str
    limits: dict[str, float]
