"""Schemas of /embed's responses."""

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from service.api.schemas.common import Fault, Input, RequestSummary, Vector, Vectors, forbid_extra


@forbid_extra
class Embeddings(RequestSummary):
    """Response with details."""

    embeddings: Vectors
    model: str
    dimensions: NonNegativeInt
    inputs: list[Input]


@forbid_extra
class Embedded(Input):
    embedding: Vector


@forbid_extra
class Failed(TypedDict):
    error: Fault


@forbid_extra
class Partial(RequestSummary):
    """Response with partial: a vector or an error for each input."""

    results: list[Embedded | Failed]
    failed: NonNegativeInt
    model: str
    dimensions: NonNegativeInt


EmbedResponse = Vectors | Embeddings | Partial
