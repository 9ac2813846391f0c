"""Request bodies of the routes that rerank."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PositiveInt, Tag

from embedwell.api.body import FAIL_FAST, Body, examples
from embedwell.api.options_body import Options, TruncationDirection
from embedwell.errors import BadRequest
from embedwell.inputs.options import InputOptions
from embedwell_models.tokenizer.tokenizer import Side

PairOverflow = Literal["error", "start", "end", "max"]
"""Handling of a pair that is too long; `max` takes the best score of the document's windows."""

_TRUNCATION_SIDES: dict[PairOverflow, Side] = {"start": "left", "end": "right"}


Instruction = Annotated[str, Field(min_length=1, max_length=8192)] | None
"""Tells a reranker that is a language model what is relevant. Default: the model's instruction."""


class DocumentObject(Body):
    """Jina's and Cohere's object for a document; only texts are supported."""

    text: str


def _document_kind(value: Any) -> str:
    return "<object>" if isinstance(value, dict) else "<text>"


Document = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[DocumentObject, Tag("<object>")],
    Discriminator(_document_kind),
]
Documents = Annotated[list[Document], FAIL_FAST]
"""Texts, or objects that hold them."""


def document_texts(documents: Sequence[str | DocumentObject]) -> list[str]:
    """Return the texts of `Documents`."""
    return [item if isinstance(item, str) else item.text for item in documents]


class PairBody(Body):
    """Fields for text pairs that exceed the model's limit.

    - `on_overflow`: how to handle a pair that is too long. error rejects it, start and end cut
      tokens off the longer text at that side, max splits the second text into windows and takes
      their best score.
    - `truncate`, `truncation_direction`: TEI's names for error, start and end.
    - `instruction`: tells a reranker that is a language model what is relevant.
    """

    truncate: bool | None = None
    truncation_direction: TruncationDirection | None = None
    on_overflow: PairOverflow | None = None
    options: Options | None = None
    instruction: Instruction = None

    def input_options(self) -> InputOptions:
        """Build the tokenization options; raises BadRequest for contradictory fields."""
        return replace(self._truncation(), instruction=self.instruction)

    def _truncation(self) -> InputOptions:
        if self.on_overflow is None:
            return InputOptions(self.truncate, self.truncation_direction)
        if self.model_fields_set & {"truncate", "truncation_direction"}:
            raise BadRequest(
                "give either on_overflow or truncate and truncation_direction, not both",
                param="on_overflow",
            )
        return InputOptions(
            truncate=self.on_overflow in _TRUNCATION_SIDES,
            side=_TRUNCATION_SIDES.get(self.on_overflow),
            windows=self.on_overflow == "max",
        )


class RerankRequest(PairBody):
    """Request body of /rerank. The response to `texts` has TEI's format, to `documents` Jina's.

    - `raw_scores`: return logits instead of scores from 0 to 1.
    - `return_text`, `return_documents`: repeat the texts in the response.
    - `top_n`, or `top_k` in Voyage's API: return only so many of the best documents.
    - `truncation`: Voyage's name for `truncate`.
    - `details`: describe each document in the response.
    - `rank_fields`, `max_chunks_per_doc`: sent by Cohere's older clients; must be null.
    """

    model_config = examples(
        {"query": "What is rust?", "documents": ["A fungus.", "Iron oxide."], "top_n": 1},
        {"query": "What is rust?", "texts": ["A fungus.", "Iron oxide."], "return_text": True},
    )

    query: str
    texts: Annotated[list[str], FAIL_FAST] | None = None
    documents: Documents | None = None
    model: str | None = None
    raw_scores: bool = False
    return_text: bool = False
    return_documents: bool | None = None
    top_n: PositiveInt | None = None
    top_k: PositiveInt | None = None
    truncation: bool | None = None
    details: bool = False
    rank_fields: None = None
    max_chunks_per_doc: None = None

    @property
    def contents(self) -> list[str]:
        """Return the documents; raises BadRequest unless either texts or documents is set."""
        if (self.texts is None) == (self.documents is None):
            raise BadRequest(
                "give either texts or documents, not both or neither", param="documents"
            )
        return document_texts(self.documents or ()) if self.texts is None else self.texts

    @property
    def is_voyage(self) -> bool:
        """Whether the request has a field that only Voyage's API has."""
        return bool(self.model_fields_set & {"top_k", "truncation"})

    @property
    def wants_plain_documents(self) -> bool:
        """Whether documents in the response are plain texts, as in Voyage's and Infinity's APIs.

        Infinity's clients send raw_scores in every request, Jina's and Cohere's clients never do.
        """
        return self.is_voyage or "raw_scores" in self.model_fields_set

    def _truncation(self) -> InputOptions:
        # `documents` are truncated by default, `texts` only if the setting says so.
        if self.truncate is not None or self.on_overflow is not None or self.texts is not None:
            return super()._truncation()
        truncate = True if self.truncation is None else self.truncation
        return InputOptions(truncate, self.truncation_direction)


class CohereRerankRequest(Body):
    """Request body of /v2/rerank.

    - `max_tokens_per_doc`: read at most so many tokens of a document.
    - `priority`: must be null.
    - `instruction`: tells a reranker that is a language model what is relevant.
    """

    model_config = examples(
        {
            "model": "reranker",
            "query": "What is rust?",
            "documents": ["A fungus.", "Iron oxide."],
            "top_n": 1,
        }
    )

    model: str
    query: str
    documents: Documents
    top_n: PositiveInt | None = None
    max_tokens_per_doc: PositiveInt | None = None
    return_documents: bool | None = None
    instruction: Instruction = None
    priority: None = None
