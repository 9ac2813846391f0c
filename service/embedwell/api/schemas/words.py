"""Schemas of the responses of /neighbors, /analogy and /doesnt_match."""

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import forbid_extra


@forbid_extra
class Neighbor(TypedDict):
    """A neighbour of an input.

    - `index`: index of the candidate, or the word's row in the table.
    """

    index: NonNegativeInt
    text: str
    score: float


@forbid_extra
class NeighborsResponse(TypedDict):
    """Response of /neighbors.

    - `neighbors`: neighbours of each input, nearest first.
    """

    metric: str
    neighbors: list[list[Neighbor]]


@forbid_extra
class AnalogyResponse(TypedDict):
    """Response of /analogy.

    - `neighbors`: words, best first.
    """

    method: str
    neighbors: list[Neighbor]


@forbid_extra
class DoesntMatchResponse(TypedDict):
    """Response of /doesnt_match.

    - `index`: index of the text that does not match.
    - `scores`: each text's cosine with the mean of all.
    """

    index: NonNegativeInt
    text: str
    scores: list[float]
