"""Field types of /v1/embeddings, and their conversion to those of an EmbedRequest."""

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Discriminator, Tag
from pydantic_core import PydanticCustomError

from embedwell.api.body import FAIL_FAST, Body, TokenIds, input_kind
from embedwell.api.options_body import Overflow
from embedwell.errors import BadRequest
from embedwell.inputs.image_input import ImageInput
from embedwell.inputs.prompts import Role

Dtype = Literal["float", "int8", "uint8", "binary", "ubinary"]
InputType = Literal["query", "document", "passage"]
TruncateWord = Literal["NONE", "START", "END"]
"""Values of `truncate` in Cohere's and NIM's APIs."""

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
}


def _modality_kind(value: Any) -> str:
    return "<one>" if isinstance(value, str) else "<some>"


ModalityName = Literal["text", "image"]
Modality = Annotated[
    Annotated[ModalityName, Tag("<one>")] | Annotated[list[ModalityName], FAIL_FAST, Tag("<some>")],
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
        custom_error_type="truncate",  # a Literal would accept 1 and 1.0 as true
        custom_error_message="Input should be true, false, 'NONE', 'START' or 'END'",
    ),
]


class InputObject(Body):
    """Jina's object for an input: a text, or an image as a data URL or in base64."""

    text: str | None = None
    image: str | None = None


def _content_of_object(item: InputObject) -> str | ImageInput:
    if item.text is None and item.image is not None:
        return ImageInput(image=item.image)
    if item.text is None or item.image is not None:
        raise PydanticCustomError("object", "Input should have either a text or an image")
    return item.text


def _item_kind(value: Any) -> str:
    if isinstance(value, str):
        return "<text>"
    return "<object>" if isinstance(value, dict) else "<ids>"


def _input_kind(value: Any) -> str:
    return "<object>" if isinstance(value, dict) else input_kind(value)


_Object = Annotated[InputObject, AfterValidator(_content_of_object), Tag("<object>")]
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
(
    "A text, its token ids, or a list of either. Validation replaces objects by a text or an "
    "ImageInput."
)


def with_modality(inputs: Any, modality: Any) -> Any:
    """Convert the texts whose modality is image to images.

    Raises BadRequest if the modalities and inputs differ in number, or if an image is not a text.

    modality: one for all inputs, or one for each.
    """
    if isinstance(modality, str):
        modality = [modality] * (len(inputs) if isinstance(inputs, list) else 1)
    if "image" not in modality:
        return inputs
    items = inputs if isinstance(inputs, list) else [inputs]
    if len(items) != len(modality):
        raise BadRequest(
            f"modality has {len(modality)} entries for {len(items)} inputs; give one for each "
            "input",
            param="modality",
        )
    return [
        _as_image(item, index) if kind == "image" else item
        for index, (item, kind) in enumerate(zip(items, modality, strict=True))
    ]


def _as_image(item: Any, index: int) -> ImageInput:
    if isinstance(item, str):
        return ImageInput(image=item)
    if isinstance(item, ImageInput):
        return item
    raise BadRequest(
        f"input {index} is not an image; send a data URL or base64", param="modality", index=index
    )
