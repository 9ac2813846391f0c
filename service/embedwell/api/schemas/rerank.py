"""Schemas of the responses of the routes that rerank and classify."""

from typing import Literal, NotRequired

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import Input, forbid_extra
from embedwell.api.schemas.vendors import CohereMeta, OpenAIUsage


@forbid_extra
class TEIRank(TypedDict):
    """Rank of a document in TEI's format.

    - `text`: only if the request has `return_text`.
    """

    index: NonNegativeInt
    score: float
    text: NotRequired[str]


TEIRanks = list[TEIRank]
"""Ranks, best first."""


@forbid_extra
class RankedText(TypedDict):
    text: str


@forbid_extra
class Ranked(TypedDict):
    """Rank of a document, as an object.

    - `document`: only if the request has `return_documents`.
    """

    index: NonNegativeInt
    relevance_score: float
    document: NotRequired[RankedText]


@forbid_extra
class PlainRanked(TypedDict):
    """Rank of a document, as a text.

    - `document`: only if the request has `return_documents`.
    """

    index: NonNegativeInt
    relevance_score: float
    document: NotRequired[str]


@forbid_extra
class JinaRanking(TypedDict):
    """Response to a request with `documents`, in Jina's and Infinity's format.

    - `results`: documents are texts if the request has `raw_scores`, as from Infinity's clients,
      else objects.
    - `inputs`: only with `details`; describes all documents in the request's order.
    """

    id: str
    object: Literal["rerank"]
    model: str
    usage: OpenAIUsage
    results: list[Ranked] | list[PlainRanked]
    inputs: NotRequired[list[Input]]


@forbid_extra
class VoyageUsage(TypedDict):
    total_tokens: NonNegativeInt


@forbid_extra
class VoyageRanking(TypedDict):
    """Response to a request with `top_k` or `truncation`, in Voyage's format."""

    object: Literal["list"]
    data: list[PlainRanked]
    model: str
    usage: VoyageUsage


@forbid_extra
class CohereRanking(TypedDict):
    id: str
    results: list[Ranked]
    meta: CohereMeta


@forbid_extra
class Score(TypedDict):
    index: NonNegativeInt
    object: Literal["score"]
    score: float


@forbid_extra
class Scores(TypedDict):
    id: str
    object: Literal["list"]
    model: str
    data: list[Score]
    usage: OpenAIUsage


@forbid_extra
class Labelled(TypedDict):
    label: str
    score: float


Prediction = list[Labelled]
"""All labels, best first."""
Predictions = Prediction | list[Prediction]
"""Labels of one input, or of each input of a list."""


@forbid_extra
class Class(TypedDict):
    """The best label of a text, and the probabilities of all labels in the model's order."""

    index: NonNegativeInt
    label: str
    probs: list[float]
    num_classes: NonNegativeInt


@forbid_extra
class Classes(TypedDict):
    """Response of /classify.

    - `data`: in Infinity's format for a request with `raw_scores`, otherwise in vLLM's.
    """

    id: str
    object: Literal["list", "classify"]
    model: str
    data: list[Class] | list[Prediction]
    usage: OpenAIUsage
