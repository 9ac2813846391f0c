"""Schemas of /embed's responses."""

from typing import NotRequired

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import (
    Fault,
    Input,
    Matrix,
    RequestSummary,
    Vector,
    Vectors,
    forbid_extra,
)


@forbid_extra
class Embeddings(RequestSummary):
    """Response to a request with `details`."""

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
    """Response to a request with `partial`: a vector or an error for each input."""

    results: list[Embedded | Failed]
    failed: NonNegativeInt
    model: str
    dimensions: NonNegativeInt


@forbid_extra
class SparseEntry(TypedDict):
    """A vocabulary entry and its weight."""

    index: NonNegativeInt
    value: float


@forbid_extra
class SparseArrays(TypedDict):
    """A sparse vector: indices of vocabulary entries in ascending order, and their weights."""

    indices: list[NonNegativeInt]
    values: list[float]


@forbid_extra
class Outputs(RequestSummary):
    """Response to a request with `outputs`: the kinds of vectors that were requested.

    - `token_ids`: for each entry of `multi`, the ids of its tokens.
    """

    embeddings: NotRequired[Vectors]
    sparse: NotRequired[list[SparseArrays]]
    multi: NotRequired[list[Matrix] | list[str]]
    token_ids: NotRequired[list[list[NonNegativeInt]]]
    model: str
    dimensions: NonNegativeInt
    inputs: list[Input]


EmbedResponse = Vectors | list[Matrix] | Embeddings | Outputs | Partial
