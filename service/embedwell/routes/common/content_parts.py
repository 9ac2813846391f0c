"""The content of an input as a list of parts, as APIs for texts and images have it."""

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

from pydantic import Field

from embedwell.errors import BadRequest
from embedwell.inputs.image_input import ImageInput
from embedwell.inputs.options import Input
from embedwell.routes.common.body import FAIL_FAST, Body


class TextPart(Body):
    """A text."""

    type: Literal["text"]
    text: str

    @property
    def value(self) -> str:
        """Return the text."""
        return self.text


class ImageUrl(Body):
    """An image as a data URL.

    - `detail`: ignored, because the model has one resolution.
    """

    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImageUrlPart(Body):
    """An image, in the format of OpenAI and Cohere."""

    type: Literal["image_url"]
    image_url: ImageUrl

    @property
    def value(self) -> ImageInput:
        """Return the image."""
        return ImageInput(image=self.image_url.url)


_ContentPart = Annotated[TextPart | ImageUrlPart, Field(discriminator="type")]
Content = Annotated[list[_ContentPart], Field(min_length=1), FAIL_FAST]
"""Texts and images of an input."""


class Part(Protocol):
    """A part of an input's content."""

    @property
    def value(self) -> str | ImageInput:
        """Return the text or the image."""


def only_part(parts: Sequence[Part], index: int, model: str) -> Input:
    """Return the text or image of an input; raises BadRequest if it has several parts.

    index: of the input. model: its name, for the error.
    """
    if len(parts) > 1:
        raise BadRequest(
            f"input {index} has {len(parts)} parts of content, but the model {model!r} embeds one "
            "text or one image at a time; send each part as an input of its own",
            code="not_offered",
            index=index,
        )
    return parts[0].value
