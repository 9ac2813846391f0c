"""Jina's responses of /v1/embeddings and /rerank."""

from typing import Literal, NotRequired

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.routes.cohere import CohereMeta
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.documents import PlainRanked, Ranked
from embedwell.routes.common.response_body import Vectors
from embedwell.routes.common.response_types import Input, OpenAIUsage


@forbid_extra
class JinaEmbeddings(TypedDict):
    """Result of one input with `return_multivector`: a vector for each token.

    - `object`: always `embedding`.
    - `index`: position of the input in the request's list, from 0.
    - `embeddings`: a vector for each token, in the order of the text.
    """

    object: Literal["embedding"]
    index: NonNegativeInt
    embeddings: Vectors


@forbid_extra
class JinaRanking(TypedDict):
    """Response to a request with `documents`, in Jina's and Infinity's format.

    - `results`: documents are texts if the request has `raw_scores`, as from Infinity's clients,
      else objects.
    - `inputs`: only with `details`; describes all documents in the request's order.
    - `data`: the results again, for Voyage's clients, if the request has nothing that tells whose
      client sent it.
    - `meta`: for Cohere's clients.
    - `object`: always `rerank`.
    """

    id: str
    object: Literal["rerank"]
    model: str
    usage: OpenAIUsage
    results: list[Ranked] | list[PlainRanked]
    meta: CohereMeta
    inputs: NotRequired[list[Input]]
    data: NotRequired[list[PlainRanked]]
