"""Request bodies: strict, and unknown fields refused."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from models.tokenizer.tokenizer import Side
from service.errors import BadRequest
from service.inputs.options import InputOptions, Text
from service.inputs.prompts import Role

Overflow = Literal["error", "start", "end", "mean"]
_CUTS: dict[Overflow, Side] = {"start": "left", "end": "right"}


class Body(BaseModel):
    """What every request body shares."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def example(*others: dict[str, Any], **fields: Any) -> ConfigDict:
    """The configuration of a body that is shown in the documentation, and how else it may be."""
    return ConfigDict(json_schema_extra={"examples": [fields, *others]})


def shape(value: Any) -> str:
    """Which of the shapes of Inputs a value seems to have."""
    if isinstance(value, str):
        return "<text>"
    if isinstance(value, list) and value and isinstance(value[0], int):
        return "<ids>"
    return "<batch>"


def _element(value: Any) -> str:
    return "<ids>" if isinstance(value, list) else "<text>"


FIRST = Field(fail_fast=True)
"""Of a list in which the first wrong item is enough; to find a million takes seconds."""
Ids = Annotated[list[int], FIRST]
_Element = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Ids, Tag("<ids>")], Discriminator(_element)
]
Inputs = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[Ids, Tag("<ids>")]
    | Annotated[list[_Element], FIRST, Tag("<batch>")],
    Discriminator(shape),
]
"""A text, its token ids, or a list of either."""


def batch(inputs: Any) -> list[Text]:
    """Inputs as a list of texts and token ids."""
    return [inputs] if shape(inputs) != "<batch>" else inputs


def _many(value: Any) -> str:
    return "<text>" if isinstance(value, str) else "<texts>"


Texts = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[str], FIRST, Tag("<texts>")],
    Discriminator(_many),
]
"""A text or a list of texts."""


def texts_of(inputs: str | list[str]) -> list[str]:
    """Inputs as a list of texts."""
    return [inputs] if isinstance(inputs, str) else inputs


_SIDES = ["right", "left", "Right", "Left"]  # TEI's documentation has capitals


def _lower(value: Any) -> Any:
    return value.lower() if value in _SIDES else value


Direction = Annotated[
    Literal["right", "left"],
    BeforeValidator(_lower),
    Field(json_schema_extra={"enum": [*_SIDES]}),
]


def _on(value: Any) -> Any:
    return True if value is None else value


On = Annotated[bool, BeforeValidator(_on, json_schema_input_type=bool | None)]
"""True unless it is false: null is not given."""


class PromptBody(Body):
    """The fields that say what is put before each text: one of them, or the model's default.

    input_type: the role whose prompt is taken.
    """

    prompt_name: str | None = None
    prompt: str | None = None
    input_type: Role | None = None


class ReadingBody(PromptBody):
    """The fields that say how texts are read.

    on_overflow: what becomes of a text that is too long: an error; tokens cut off at its start or
    at its end; or the mean of its windows. truncate and truncation_direction are TEI's words for
    the first three (right cuts at the end). Where neither says the side, it is the
    model's own, mostly the end. input_type: the role whose prompt is taken.
    """

    truncate: bool | None = None
    truncation_direction: Direction | None = None
    on_overflow: Overflow | None = None

    def reading(self, count: bool = False) -> InputOptions:
        """How to read the texts; raises BadRequest for two ways to say what long ones become.

        count: tell how many tokens were cut off, however long that takes.
        """
        found = self._reading()
        return replace(found, count_dropped=True) if count else found

    def _reading(self) -> InputOptions:
        if self.model_fields_set.isdisjoint(_READING):
            return _PLAIN
        prompt = (self.prompt, self.prompt_name, self.input_type)
        if self.on_overflow is None:
            return InputOptions(self.truncate, self.truncation_direction, *prompt)
        if self.model_fields_set & {"truncate", "truncation_direction"}:
            raise BadRequest(
                "give on_overflow, or truncate and truncation_direction, not both",
                param="on_overflow",
            )
        return reading(self.on_overflow, *prompt)

    def whole(self) -> InputOptions:
        """The same where every token has a vector; raises BadRequest for a mean of windows."""
        found = self.reading()
        if found.windows:
            raise BadRequest(
                "the mean of windows has no tokens: here on_overflow is error, start or end",
                param="on_overflow",
            )
        return found


class Options(Body):
    """What models hosted by Hugging Face can be told, and clients send; here it changes nothing."""

    wait_for_model: bool | None = None
    use_cache: bool | None = None
    use_gpu: bool | None = None


class HostedBody(ReadingBody):
    """The same with options, which are not used."""

    options: Options | None = None


_READING, _PLAIN = frozenset(ReadingBody.model_fields), InputOptions()


def reading(
    overflow: Overflow,
    prompt: str | None = None,
    prompt_name: str | None = None,
    role: Role | None = None,
) -> InputOptions:
    """How to read texts, in the words of on_overflow."""
    truncate, windows = overflow in _CUTS, overflow == "mean"
    return InputOptions(truncate, _CUTS.get(overflow), prompt, prompt_name, role, windows)
