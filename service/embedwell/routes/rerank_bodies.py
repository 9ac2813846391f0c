"""Request and response bodies of /rerank and /v2/rerank."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    Tag,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from embedwell.errors import BadRequest
from embedwell.routes.cohere import CohereMeta
from embedwell.routes.common.body import FAIL_FAST, Body, TextList, by_type, examples
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.options import (
    Instruction,
    PairBody,
    cutting,
)
from embedwell.routes.common.request_inputs import ImageInput
from embedwell.routes.common.response_types import Input, OpenAIUsage
from embedwell.routes.common.vllm_fields import VLLMFields
from embedwell.routes.weaviate import WeaviateRanking
from embedwell_models.read.inputs import InputOptions


class DocumentObject(Body):
    """Jina's and Cohere's object for a document: a text, which some clients call `content`.

    - `text`: the document's text. Give one of the three fields.
    - `content`: another name of `text`.
    - `image`: an image in place of the text: a PNG, JPEG, WebP or GIF as a data URL or in base64.
    """

    text: str | None = None
    content: str | None = None
    image: str | None = None


def _check_document(item: DocumentObject) -> DocumentObject:
    if [item.text, item.content, item.image].count(None) != 2:
        raise PydanticCustomError("object", "Input should have either text, content or image")
    return item


Document = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[DocumentObject, AfterValidator(_check_document), Tag("<object>")],
    by_type({dict: "<object>"}, "<text>"),
]

Documents = Annotated[list[Document], FAIL_FAST]
"""Texts, or objects that hold a text or an image."""


def document_contents(documents: Sequence[str | DocumentObject]) -> list[str | ImageInput]:
    """Return the texts and images of `Documents`."""
    return [item if isinstance(item, str) else _content(item) for item in documents]


def _content(item: DocumentObject) -> str | ImageInput:
    if item.image is not None:
        return ImageInput(image=item.image)
    return item.text or item.content or ""


_FLAGS = {"true": True, "false": False}


def _flag(value: Any) -> Any:
    return _FLAGS.get(value, value) if isinstance(value, str) else value


Flag = Annotated[
    bool, BeforeValidator(_flag, json_schema_input_type=bool | Literal["true", "false"])
]
"""A flag, which some clients send as a string."""


_NOT_OF_VOYAGE = {"top_n", "raw_scores", "details"}
"""Fields that only clients of other APIs send."""


class RerankRequest(PairBody, VLLMFields):
    """Request body of /rerank. The response to `texts` has TEI's format, to `documents` Jina's.

    The score of a reranker is from 0 to 1, that of a dense model or of a reranker of lists is the
    cosine of query and document, and that of a multi-vector model is MaxSim.

    - `documents`: texts, or objects with a text or an image, if the model has vectors of pages.
    - `raw_scores`: whether the scores of a reranker are logits. Default: false.
    - `return_text`, `return_documents`: whether the response repeats the texts. Default: only texts
      of `documents`, as Jina and vLLM do.
    - `max_tokens_per_doc`: read at most so many tokens of a document, at least 1. Default: as many
      as the model reads.
    - `use_activation`, `activation`: vLLM's fields: whether scores are from 0 to 1; false for
      logits. Default: true.
    - `truncation`: Voyage's name for `truncate`.
    - `details`: whether the response has the token count of each document, too. Default: false.
    - `rank_fields`: sent by Cohere's older clients; must be null.
    - `max_chunks_per_doc`, `overlap_tokens`, `return_len`: ignored, as no document is read in
      chunks.
    - `kwargs`: sent by Xinference's client, always empty; ignored.
    - `property`: sent by Weaviate: the response then has its format, and the request's order.
    - `query`: the question or search text.
    - `texts`: the texts to rank, in TEI's API. Give one of `texts` and `documents`.
    - `top_n`: return only so many of the best documents; 0 is all. Default: all.
    - `top_k`: Voyage's name of `top_n`.
    """

    model_config = examples(
        {"query": "What is rust?", "documents": ["A fungus.", "Iron oxide."], "top_n": 1},
        {"query": "What is rust?", "texts": ["A fungus.", "Iron oxide."], "return_text": True},
    )

    voyage_fields = frozenset({"top_k", "truncation"})

    input_fields = ("texts", "documents")

    query: str
    texts: TextList | None = None
    documents: Documents | None = None
    model: str | None = None
    raw_scores: bool = False
    return_text: bool = False
    return_documents: Flag | None = None
    top_n: NonNegativeInt | None = None
    top_k: NonNegativeInt | None = None
    max_tokens_per_doc: PositiveInt | None = None
    use_activation: bool | None = None
    activation: bool | None = None
    truncation: bool | None = None
    details: bool = False
    rank_fields: None = None
    max_chunks_per_doc: int | None = None
    overlap_tokens: int | None = None
    return_len: bool | None = None
    kwargs: Literal["{}"] | None = None
    weaviate_property: str | None = Field(None, alias="property")

    @property
    def contents(self) -> Sequence[str | ImageInput]:
        """Return the documents; raises BadRequest unless either texts or documents is set."""
        if (self.texts is None) == (self.documents is None):
            raise BadRequest("give one of texts and documents", param="documents")
        return document_contents(self.documents or ()) if self.texts is None else self.texts

    @property
    def is_voyage(self) -> bool:
        """Whether the request has a field that only Voyage's API has."""
        return not self.model_fields_set.isdisjoint(self.voyage_fields)

    @property
    def is_ambiguous(self) -> bool:
        """Whether Voyage's clients can have sent the request, without a field that tells so."""
        return self.texts is None and not self.model_fields_set & _NOT_OF_VOYAGE

    @property
    def repeats_documents(self) -> bool:
        """Whether the response repeats documents: as requested, or as Jina and vLLM do."""
        if self.return_documents is not None:
            return self.return_documents
        others = self.texts is not None or self.is_voyage or "raw_scores" in self.model_fields_set
        if others or self.weaviate_property is not None:
            return False
        return all(isinstance(content, str) for content in self.contents)

    @property
    def wants_logits(self) -> bool:
        """Whether scores are logits."""
        return self.raw_scores or self.use_activation is False or self.activation is False

    @property
    def wants_plain_documents(self) -> bool:
        """Whether documents in the response are plain texts, as in Voyage's and Infinity's APIs.

        Infinity's clients send raw_scores in every request, Jina's and Cohere's clients never do.
        """
        return self.is_voyage or "raw_scores" in self.model_fields_set

    def input_options(self) -> InputOptions:
        """Build the tokenization options; raises BadRequest for contradictory fields."""
        options = super().input_options()
        if self.max_tokens_per_doc is None:
            return options
        return replace(cutting(options, "max_tokens_per_doc"), max_length=self.max_tokens_per_doc)

    def _truncation(self) -> InputOptions:
        # `documents` are truncated by default, `texts` only if the setting says so.
        options = super()._truncation()
        if self.truncate is not None or self.on_overflow is not None or self.texts is not None:
            return options
        return replace(options, truncate=True if self.truncation is None else self.truncation)


class CohereRerankRequest(Body):
    """Request body of /v2/rerank.

    - `max_tokens_per_doc`: read at most so many tokens of a document, at least 1. Default: as many
      as the model reads.
    - `priority`: Cohere's order of requests; must be null.
    - `instruction`: tells a reranker that is a language model what is relevant, in up to 8192
      characters. Default: the model's instruction.
    - `query`: the question or search text.
    - `documents`: the documents to rank: texts, or objects with a text or an image.
    - `top_n`: return only so many of the best documents; 0 is all. Default: all.
    - `return_documents`: whether the response repeats each document. Default: false.
    """

    model_config = examples(
        {
            "model": "reranker",
            "query": "What is rust?",
            "documents": ["A fungus.", "Iron oxide."],
            "top_n": 1,
        }
    )

    input_fields = ("documents",)

    model: str
    query: str
    documents: Documents
    top_n: NonNegativeInt | None = None
    max_tokens_per_doc: PositiveInt | None = None
    return_documents: Flag | None = None
    instruction: Instruction = None
    priority: None = None


@forbid_extra
class TEIRank(TypedDict):
    """Rank of a document in TEI's format.

    - `text`: text of the document; only if the request has `return_text`.
    - `score`: relevance to the query: higher is more relevant.
    """

    index: NonNegativeInt
    score: float
    text: NotRequired[str]


TEIRanks = list[TEIRank]
"""Ranks, best first."""


@forbid_extra
class RankedText(TypedDict):
    """A document.

    - `text`: text of the document.
    """

    text: str


@forbid_extra
class Ranked(TypedDict):
    """Rank of a document, as an object.

    - `document`: the document; only if the request has `return_documents`.
    - `relevance_score`: relevance to the query: higher is more relevant.
    """

    index: NonNegativeInt
    relevance_score: float
    document: NotRequired[RankedText]


@forbid_extra
class PlainRanked(TypedDict):
    """Rank of a document, as a text.

    - `document`: text of the document; only if the request has `return_documents`.
    - `relevance_score`: relevance to the query: higher is more relevant.
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


@forbid_extra
class CohereRanking(TypedDict):
    """Response of /v2/rerank.

    - `results`: the documents, best first.
    """

    id: str
    results: list[Ranked]
    meta: CohereMeta


RerankResponse = TEIRanks | JinaRanking | VoyageRanking | WeaviateRanking
