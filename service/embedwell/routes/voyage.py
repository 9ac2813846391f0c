"""Voyage's fields of /v1/embeddings and /rerank, and its response of /rerank."""

from typing import Annotated, Literal

from pydantic import NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.routes.common.body import WHOLE, Body
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.documents import PlainRanked
from embedwell.routes.common.field_names import SameAs
from embedwell.routes.common.options import NumberType


class VoyageFields(Body):
    """Voyage's fields of /v1/embeddings.

    - `truncation`: Voyage's name of `truncate`: false refuses a text that is too long.
    - `output_dtype`: Voyage's name of the number type: `int8` and `uint8` are scaled by each
      vector's largest component, and `binary` and `ubinary` have one bit for each dimension, 8 in a
      byte. Default: `float`.
    """

    voyage_fields = frozenset({"truncation"})

    truncation: Annotated[bool | None, SameAs("truncate")] = None
    output_dtype: NumberType | None = None
    output_dimension: Annotated[Annotated[PositiveInt, WHOLE] | None, SameAs("dimensions")] = None


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
