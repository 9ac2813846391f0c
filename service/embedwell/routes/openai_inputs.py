"""Inputs of /v1/embeddings: texts, token ids, objects with a text or an image, and messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Tag
from pydantic_core import PydanticCustomError

from embedwell.errors import BadRequest
from embedwell.routes.common.body import FAIL_FAST, Body, TokenIds, by_type, input_kind
from embedwell.routes.common.request_inputs import Content, ImageInput, Input, input_of_parts


class InputObject(Body):
    """Jina's object for an input: a text, or an image as a data URL or in base64.

    - `text`: the text. Give one of the two fields.
    - `image`: a PNG, JPEG, WebP or GIF as a data URL or in base64.
    """

    text: str | None = None
    image: str | None = None


def _content_of_object(item: InputObject) -> str | ImageInput:
    if item.text is None and item.image is not None:
        return ImageInput(image=item.image)
    if item.text is None or item.image is not None:
        raise PydanticCustomError("object", "Input should have either a text or an image")
    return item.text


def _input_kind(value: Any) -> str:
    return "<object>" if isinstance(value, dict) else input_kind(value)


_Object = Annotated[InputObject, AfterValidator(_content_of_object), Tag("<object>")]
_InputItem = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[TokenIds, Tag("<ids>")] | _Object,
    by_type({list: "<ids>", dict: "<object>"}, "<text>"),
]

OpenAIInputs = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[TokenIds, Tag("<ids>")]
    | Annotated[list[_InputItem], FAIL_FAST, Tag("<batch>")]
    | _Object,
    Discriminator(_input_kind),
]
"""A text, its token ids, or a list of either; validation turns objects into texts and images."""


_Text = Annotated[str, Tag("<text>")]
TextsOrObjects = Annotated[
    _Text
    | _Object
    | Annotated[
        list[Annotated[_Text | _Object, by_type({dict: "<object>"}, "<text>")]],
        FAIL_FAST,
        Tag("<batch>"),
    ],
    by_type({list: "<batch>", dict: "<object>"}, "<text>"),
]
"""A text, an object, or a list of either; validation turns objects into texts and images."""


class Message(Body):
    """A message of a chat, with texts and images.

    - `role`: `user`. A model that reads its texts in a chat template also takes `system` before it,
      for the instruction, and an empty message of the `assistant` after it.
    - `content`: a text, or a list of texts and images.
    """

    role: Literal["system", "user", "assistant"]
    content: Annotated[
        Annotated[str, Tag("<text>")] | Annotated[Content, Tag("<parts>")],
        by_type({str: "<text>"}, "<parts>"),
    ]


@dataclass(frozen=True)
class Conversation:
    """Content of a user's message, and the instruction before it; None without a message of it."""

    input: Input
    instruction: str | None = None


def conversation(
    messages: Sequence[Message], model: str, reads_messages: bool = False
) -> Conversation:
    """Return the content of the messages; raises BadRequest for others than a model reads.

    model: its name, for the errors. reads_messages: whether it reads texts in a chat template.
    """
    roles = [message.role for message in messages]
    if reads_messages and roles[-1:] == ["assistant"] and not _text(messages[-1]):
        roles.pop()  # the start of the reply, which is part of the model's format
    if roles == ["user"]:
        return Conversation(_input(messages[0]))
    if reads_messages and roles == ["system", "user"]:
        instruction = _text(messages[0])
        if instruction is not None:
            return Conversation(_input(messages[1]), instruction)
    read = "no conversations; send one message of the user, or several texts and images as input"
    if reads_messages:
        read = (
            "one message of the user, with a text of the system before it and an empty message of "
            "the assistant after it; send these alone"
        )
    stated = ", ".join(message.role for message in messages)
    raise BadRequest(
        f"messages has the roles [{stated}], but the model {model!r} reads {read}",
        code="not_offered",
        param="messages",
    )


def _input(message: Message) -> Input:
    content = message.content
    return content if isinstance(content, str) else input_of_parts(content)


def _text(message: Message) -> str | None:
    # None for a message with images.
    content = _input(message)
    return content if isinstance(content, str) else None


ModalityName = Literal["text", "image"]
Modality = Annotated[
    Annotated[ModalityName, Tag("<one>")] | Annotated[list[ModalityName], FAIL_FAST, Tag("<some>")],
    by_type({str: "<one>"}, "<some>"),
]


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
