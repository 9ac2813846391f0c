"""An input of several texts and images, in order."""

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

from embedwell.inputs.image_input import ImageInput


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TextPart(_Model):
    """A text."""

    type: Literal["text"]
    text: str

    @property
    def value(self) -> str:
        """Return the text."""
        return self.text


class ImageUrl(_Model):
    """An image as a data URL.

    - `detail`: ignored, because the model has one resolution.
    """

    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImageUrlPart(_Model):
    """An image, in the format of OpenAI and Cohere."""

    type: Literal["image_url"]
    image_url: ImageUrl

    @property
    def value(self) -> ImageInput:
        """Return the image."""
        return ImageInput(image=self.image_url.url)


_ContentPart = Annotated[TextPart | ImageUrlPart, Field(discriminator="type")]
Content = Annotated[list[_ContentPart], Field(min_length=1, fail_fast=True)]
"""Texts and images of an input."""


class ContentInput(_Model):
    """An input of texts and images, for a model that reads several in one input."""

    content: Content

    @classmethod
    def of(cls, parts: Sequence[str | ImageInput]) -> Self:
        """Build an input of texts and images."""
        return cls(
            content=[
                TextPart(type="text", text=part)
                if isinstance(part, str)
                else ImageUrlPart(type="image_url", image_url=ImageUrl(url=part.image))
                for part in parts
            ]
        )

    @property
    def parts(self) -> list[str | ImageInput]:
        """The texts and images."""
        return [part.value for part in self.content]

    def __len__(self) -> int:
        """Return the number of characters to tokenize."""
        return sum(map(len, self.parts))


class Part(Protocol):
    """A part of an input's content, in any API."""

    @property
    def value(self) -> str | ImageInput: ...


def input_of_parts(parts: Sequence[Part]) -> str | ImageInput | ContentInput:
    """Return the only text or image of an input, or all of its parts."""
    values = [part.value for part in parts]
    return values[0] if len(values) == 1 else ContentInput.of(values)
