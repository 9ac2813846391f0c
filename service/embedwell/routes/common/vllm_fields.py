"""Fields and messages of vLLM's requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Tag

from embedwell.errors import BadRequest
from embedwell.routes.common.body import Body, by_type
from embedwell.routes.common.request_inputs import Content, Input, input_of_parts


class VLLMFields(Body):
    """Fields that any request of vLLM's clients may have.

    - `priority`: vLLM's order of requests; must be 0, because all requests have the same.
    - `user`: id of an end user, sent by clients of OpenAI and vLLM; ignored.
    - `request_id`: id that vLLM's clients give; ignored. Send the header `x-request-id` instead.
    - `cache_salt`: vLLM's key of its cache; ignored.
    """

    priority: Literal[0] | None = None
    user: str | None = None
    request_id: str | None = None
    cache_salt: str | None = None


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
