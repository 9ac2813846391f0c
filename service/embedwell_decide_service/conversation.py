"""Messages and tool calls of OpenAI's API, as a conversation that a decision model reads."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from embedwell.errors import BadRequest
from embedwell.routes.common.body import FAIL_FAST, Body, by_type
from embedwell_decide.questions import render


class ConversationText(Body):
    """A text in a list of parts.

    - `type`: `input_text`, or `output_text` in a message of an assistant.
    - `text`: the text.
    - `prompt_cache_breakpoint`: OpenAI's; ignored.
    """

    type: Literal["input_text", "output_text"]
    text: str
    prompt_cache_breakpoint: dict[str, Any] | None = None


class ConversationRefusal(Body):
    """A refusal in a message of an assistant.

    - `type`: always `refusal`.
    - `refusal`: its text.
    """

    type: Literal["refusal"]
    refusal: str


class ConversationJson(Body):
    """JSON in a list of parts, which the model reads as a text.

    - `type`: always `input_json`.
    - `data`: an object, or a list of objects.
    """

    type: Literal["input_json"]
    data: dict[str, Any] | list[dict[str, Any]]


class ConversationImage(Body):
    """An image in a list of parts, which decision models here do not read: it is refused.

    - `type`: always `input_image`.
    - `image_url`: its address.
    - `detail`: OpenAI's level of detail.
    - `prompt_cache_breakpoint`: OpenAI's.
    """

    type: Literal["input_image"]
    image_url: str
    detail: str | None = None
    prompt_cache_breakpoint: dict[str, Any] | None = None


_Part = Annotated[
    ConversationText | ConversationRefusal | ConversationJson | ConversationImage,
    Discriminator("type"),
]
Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[_Part], FAIL_FAST, Tag("<parts>")],
    by_type({str: "<text>"}, "<parts>"),
]
"""A text, or a list of texts and JSON."""


class ConversationMessage(Body):
    """A message.

    - `type`: `message`, or absent.
    - `role`: who wrote it.
    - `content`: a text, or a list of texts and JSON.
    - `phase`: OpenAI's phase of an assistant's message; ignored.
    """

    type: Literal["message"] = "message"
    role: Literal["user", "developer", "system", "assistant"]
    content: Content
    phase: str | None = None

    def described(self) -> dict[str, str]:
        """Return what the model reads."""
        return {"role": self.role, "content": content_text(self.content, "input")}


class ToolCall(Body):
    """A call of a function or of a custom tool.

    - `type`: `function_call` or `custom_tool_call`.
    - `call_id`: id of the call, which its output repeats.
    - `name`: the function or tool.
    - `arguments`: of a function, as JSON in a text.
    - `input`: of a custom tool.
    - `id`, `namespace`, `status`: OpenAI's; ignored.
    """

    type: Literal["function_call", "custom_tool_call"]
    call_id: str
    name: str
    arguments: str | None = None
    input: str | None = None
    id: str | None = None
    namespace: str | None = None
    status: str | None = None

    def described(self) -> dict[str, str]:
        """Return what the model reads."""
        given = self.input if self.arguments is None else self.arguments
        return {"type": self.type, "name": self.name, "arguments": given or ""}


class ToolOutput(Body):
    """The output of a call.

    - `type`: `function_call_output` or `custom_tool_call_output`.
    - `call_id`: id of the call.
    - `output`: a text, or a list of texts.
    - `id`, `status`: OpenAI's; ignored.
    """

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: Content
    id: str | None = None
    status: str | None = None

    def described(self) -> dict[str, str]:
        """Return what the model reads."""
        return {"type": self.type, "output": content_text(self.output, "input")}


def _kind(item: Any) -> str:
    kind = item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", None)
    return str(kind)


Items = Annotated[
    list[
        Annotated[
            Annotated[ConversationMessage, Tag("message")]
            | Annotated[ToolCall, Tag("function_call")]
            | Annotated[ToolCall, Tag("custom_tool_call")]
            | Annotated[ToolOutput, Tag("function_call_output")]
            | Annotated[ToolOutput, Tag("custom_tool_call_output")],
            Discriminator(_kind),
        ]
    ],
    Field(min_length=1),
    FAIL_FAST,
]
"""Messages, tool calls and their outputs, the earliest first."""


def content_text(content: Any, param: str) -> str:
    """Return the text of `Content`; raises BadRequest for an image.

    param: the field, for errors.
    """
    if isinstance(content, str):
        return content
    if any(isinstance(part, ConversationImage) for part in content):
        raise BadRequest(
            f"{param}: decision models here read no images; send texts and JSON",
            code="not_offered",
            param=param,
        )
    return "\n".join(map(_part_text, content))


def conversation(items: list[ConversationMessage | ToolCall | ToolOutput]) -> list[dict[str, str]]:
    """Return what a model reads of a conversation; raises BadRequest for an output of no call."""
    calls = {item.call_id for item in items if isinstance(item, ToolCall)}
    for index, item in enumerate(items):
        if isinstance(item, ToolOutput) and item.call_id not in calls:
            raise BadRequest(
                f"input.{index}: no call has the call_id {item.call_id!r}", param="input"
            )
    return [item.described() for item in items]


def _part_text(part: ConversationText | ConversationRefusal | ConversationJson) -> str:
    if isinstance(part, ConversationJson):
        return render(part.data)
    return part.text if isinstance(part, ConversationText) else part.refusal
