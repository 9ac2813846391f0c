"""Schemas of /embed's responses."""

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from service.api.schemas.common import Account, Fault, Input, Vector, Vectors, closed


@closed
class Embeddings(Account):
    """Response with details."""

    embeddings: Vectors
    model: str
    dimensions: NonNegativeInt
    inputs: list[Input]


@closed
class Embedded(Input):
    embedding: Vector


@closed
class Failed(TypedDict):
    error: Fault


@closed
class Partial(Account):
    """Response with partial: a vector or an error for each input."""

    results: list[Embedded | Failed]
    failed: NonNegativeInt
    model: str
    dimensions: NonNegativeInt


EmbedResponse = Vectors | Embeddings | Partial
