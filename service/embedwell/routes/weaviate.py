"""Weaviate's field of /rerank, and its response."""

from collections.abc import Sequence

from pydantic import Field
from typing_extensions import TypedDict

from embedwell.routes.common.body import Body
from embedwell.routes.common.common_fields import forbid_extra
from embedwell_models.vectors import Floats


class WeaviateRerankFields(Body):
    """Weaviate's field of /rerank, whose value in a request selects a WeaviateRanking.

    - `property`: sent by Weaviate: the response then has its format, and the request's order.
    """

    weaviate_property: str | None = Field(None, alias="property")


@forbid_extra
class DocumentScore(TypedDict):
    """A document and its score.

    - `document`: text of the document.
    - `score`: relevance to the query: higher is more relevant.
    """

    document: str
    score: float


@forbid_extra
class WeaviateRanking(TypedDict):
    """Response of /rerank to a request with `property`, as from Weaviate.

    - `scores`: the documents in the request's order, with their scores.
    - `property`, `score`: always null.
    - `query`: the query of the request.
    """

    query: str
    scores: list[DocumentScore]
    property: None
    score: None


def document_scores(query: str, documents: Sequence[str], scores: Floats) -> WeaviateRanking:
    """Build the response of /rerank for Weaviate. scores: (B,)."""
    pairs = zip(documents, scores.tolist(), strict=True)
    return {
        "query": query,
        "scores": [{"document": document, "score": score} for document, score in pairs],
        "property": None,
        "score": None,
    }
