"""Voyage's fields of /rerank, and its response."""

from typing import Literal

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.routes.common.body import Body
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.documents import PlainRanked


class VoyageRerankFields(Body):
    """Voyage's fields of /rerank; a request with one of them gets a VoyageRanking.

    - `top_k`: Voyage's name of `top_n`.
    - `truncation`: Voyage's name for `truncate`.
    """

    voyage_fields = frozenset({"top_k", "truncation"})

    top_k: NonNegativeInt | None = None
    truncation: bool | None = None

    @property
    def is_voyage(self) -> bool:
        """Whether the request has a field that only Voyage's API has."""
        return not self.model_fields_set.isdisjoint(self.voyage_fields)


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
