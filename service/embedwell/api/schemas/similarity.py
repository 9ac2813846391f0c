"""Schemas of /similarity's responses."""

from typing import NotRequired

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import Input, Matrix, Prompt, Timing, Usage, forbid_extra


@forbid_extra
class SourceInputs(TypedDict):
    source_sentence: Input
    sentences: list[Input]


@forbid_extra
class SideInputs(TypedDict):
    """Descriptions of the texts among the inputs; vectors have no entry."""

    a: NotRequired[list[Input]]
    b: NotRequired[list[Input]]


class _Details(TypedDict):
    inputs: NotRequired[SourceInputs | SideInputs]
    prompt: NotRequired[Prompt]
    usage: NotRequired[Usage]
    timing: NotRequired[Timing]


@forbid_extra
class Scores(_Details):
    """Response to a request without `top_k`.

    - `scores`: in mode matrix a row for each a, otherwise a number for each pair.
    """

    metric: str
    scores: list[float] | Matrix


@forbid_extra
class Best(TypedDict):
    index: NonNegativeInt
    score: float


@forbid_extra
class Top(_Details):
    """Response to a request with `top_k`.

    - `top`: for each a, the closest entries of b.
    """

    metric: str
    top: list[list[Best]]


SimilarityResponse = list[float] | Scores | Top
