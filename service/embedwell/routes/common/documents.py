"""Documents of a request to rank, and their ranks, as several APIs have them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, BeforeValidator, NonNegativeInt, Tag
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from embedwell.routes.common.body import FAIL_FAST, Body, by_type
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.request_inputs import ImageInput


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

Ranks = Sequence[tuple[int, float]]
"""The index and the score of each document, best first."""


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


def rank_objects(ranks: Ranks, texts: Sequence[str] | None) -> list[Ranked]:
    """Return the ranks with their texts as objects; None for no texts."""
    if texts is None:
        return [{"index": index, "relevance_score": score} for index, score in ranks]
    return [
        {"index": index, "relevance_score": score, "document": {"text": texts[index]}}
        for index, score in ranks
    ]


def rank_texts(ranks: Ranks, texts: Sequence[str] | None) -> list[PlainRanked]:
    """Return the ranks with their texts; None for no texts."""
    if texts is None:
        return [{"index": index, "relevance_score": score} for index, score in ranks]
    return [
        {"index": index, "relevance_score": score, "document": texts[index]}
        for index, score in ranks
    ]
