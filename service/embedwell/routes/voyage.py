"""Voyage's response of /rerank."""

from typing import Literal

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.documents import PlainRanked


@forbid_extra
class VoyageUsage(TypedDict):
    """Token count of a request.

    - `total_tokens`: number of tokens of the query and the documents, with special tokens.
    """

    total_tokens: NonNegativeInt


@forbid_extra
class VoyageRanking(TypedDict):
    """Response to a request with `top_k` or `truncation`, in Voyage's format.

    - `object`: always `list`.
    - `data`: the documents, best first.
    """

    object: Literal["list"]
    data: list[PlainRanked]
    model: str
    usage: VoyageUsage
