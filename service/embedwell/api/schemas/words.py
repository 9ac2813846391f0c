"""Schemas of the responses of /neighbors, /analogy and /doesnt_match."""

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import forbid_extra


@forbid_extra
class Neighbor(TypedDict):
    """index: of the candidate, or the word's row in the table."""

    index: NonNegativeInt
    text: str
    score: float


@forbid_extra
class NeighborsResponse(TypedDict):
    """neighbors: for each input, the nearest first."""

    metric: str
    neighbors: list[list[Neighbor]]


@forbid_extra
class AnalogyResponse(TypedDict):
    """neighbors: the best first."""

    method: str
    neighbors: list[Neighbor]


@forbid_extra
class DoesntMatchResponse(TypedDict):
    """index: of the text that does not match. scores: cosines with the mean of all."""

    index: NonNegativeInt
    text: str
    scores: list[float]
