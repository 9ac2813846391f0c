"""Shapes: the answers of /similarity."""

from typing import NotRequired

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from service.api.schemas.common import Input, Matrix, Prompt, Timing, Usage, closed


@closed
class SourceInputs(TypedDict):
    source_sentence: Input
    sentences: list[Input]


@closed
class SideInputs(TypedDict):
    """Of the sides that are texts."""

    a: NotRequired[list[Input]]
    b: NotRequired[list[Input]]


class _Details(TypedDict):
    inputs: NotRequired[SourceInputs | SideInputs]
    prompt: NotRequired[Prompt]
    usage: NotRequired[Usage]
    timing: NotRequired[Timing]


@closed
class Scores(_Details):
    """A row for each a with mode matrix, else a number for each pair; with details, the rest."""

    metric: str
    scores: list[float] | Matrix


@closed
class Best(TypedDict):
    index: NonNegativeInt
    score: float


@closed
class Top(_Details):
    """With top_k: for each a, the best of b."""

    metric: str
    top: list[list[Best]]


SimilarityAnswer = list[float] | Scores | Top
