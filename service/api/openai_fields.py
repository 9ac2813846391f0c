"""Field types of /v1/embeddings, and what their values mean in an EmbedRequest."""

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Discriminator, Tag

from service.api.body import FAIL_FAST, Body, TokenIds, input_kind
from service.api.options_body import Overflow
from service.inputs.prompts import Role

Dtype = Literal["float", "int8", "uint8", "binary", "ubinary"]
InputType = Literal["query", "document", "passage"]
Task = Literal[
    "retrieval.query", "retrieval.passage", "text-matching", "classification", "separation"
]
TruncateWord = Literal["NONE", "START", "END"]
"""Cohere's and NIM's terms for the handling of a text that is too long."""

OVERFLOW: dict[TruncateWord | bool | None, Overflow | None] = {
    "NONE": "error",
    "START": "start",
    "END": "end",
    False: "error",
    True: "end",
    None: None,
}
ROLES: dict[str | None, Role] = {
    "query": "query",
    "document": "document",
    "passage": "document",
    "retrieval.query": "query",
    "retrieval.passage": "document",
    "classification": "classification",
    "separation": "clustering",
}


def _modality_kind(value: Any) -> str:
    return "<one>" if isinstance(value, str) else "<some>"


Modality = Annotated[
    Annotated[Literal["text"], Tag("<one>")]
    | Annotated[list[Literal["text"]], FAIL_FAST, Tag("<some>")],
    Discriminator(_modality_kind),
]


def _truncate_kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "<flag>"
    return "<word>" if value in get_args(TruncateWord) else None


Truncate = Annotated[
    Annotated[bool, Tag("<flag>")] | Annotated[TruncateWord, Tag("<word>")],
    Discriminator(
        _truncate_kind,
        custom_error_type="truncate",  # a Literal would take 1 and 1.0 for true
        custom_error_message="Input should be true, false, 'NONE', 'START' or 'END'",
    ),
]


class TextObject(Body):
    """Jina's object for an input, which may only be a text here."""

    text: str


def _text_of_object(item: TextObject) -> str:
    return item.text


def _item_kind(value: Any) -> str:
    if isinstance(value, str):
        return "<text>"
    return "<object>" if isinstance(value, dict) else "<ids>"


def _input_kind(value: Any) -> str:
    return "<object>" if isinstance(value, dict) else input_kind(value)


_Object = Annotated[TextObject, AfterValidator(_text_of_object), Tag("<object>")]
_InputItem = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[TokenIds, Tag("<ids>")] | _Object,
    Discriminator(_item_kind),
]
OpenAIInputs = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[TokenIds, Tag("<ids>")]
    | Annotated[list[_InputItem], FAIL_FAST, Tag("<batch>")]
    | _Object,
    Discriminator(_input_kind),
]
"""A text, its token ids, or a list of either; objects are replaced by their texts."""
