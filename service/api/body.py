"""Request bodies: strict, and unknown fields refused."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Tag

from service.reader import Reading, Text


class Body(BaseModel):
    """What every request body shares."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def example(**fields: Any) -> ConfigDict:
    """The configuration of a body that shows one in the documentation."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


def _shape(value: Any) -> str:
    if isinstance(value, str):
        return "<text>"
    if isinstance(value, list) and value and isinstance(value[0], int):
        return "<ids>"
    return "<batch>"


def _element(value: Any) -> str:
    return "<ids>" if isinstance(value, list) else "<text>"


Ids = list[int]
_Element = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Ids, Tag("<ids>")], Discriminator(_element)
]
Inputs = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[Ids, Tag("<ids>")]
    | Annotated[list[_Element], Tag("<batch>")],
    Discriminator(_shape),
]
"""A text, its token ids, or a list of either."""


def batch(inputs: Any) -> list[Text]:
    """Inputs as a list of texts and token ids."""
    return [inputs] if _shape(inputs) != "<batch>" else inputs


def _many(value: Any) -> str:
    return "<text>" if isinstance(value, str) else "<texts>"


Texts = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[str], Tag("<texts>")], Discriminator(_many)
]
"""A text or a list of texts."""


def texts_of(inputs: str | list[str]) -> list[str]:
    """Inputs as a list of texts."""
    return [inputs] if isinstance(inputs, str) else inputs


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


class ReadingBody(Body):
    """The fields that say how texts are read."""

    truncate: bool | None = None
    truncation_direction: Annotated[Literal["right", "left"], BeforeValidator(_lower)] = "right"
    prompt_name: str | None = None
    prompt: str | None = None

    def reading(self) -> Reading:
        return Reading(self.truncate, self.truncation_direction, self.prompt, self.prompt_name)
