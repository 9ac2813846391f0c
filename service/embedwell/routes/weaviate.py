"""Weaviate's response of /rerank."""

from typing_extensions import TypedDict

from embedwell.routes.common.common_fields import forbid_extra


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
