"""Inputs of a request with images, as its body contains them."""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Literal, Protocol, Self

from pydantic import ConfigDict, Field

from embedwell.routes.common.common_fields import RequestModel
from embedwell_models.errors import ImageError
from embedwell_models.read.inputs import TextOrIds

_SCHEME = 20  # characters within which another URL's scheme ends


class _Model(RequestModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ImageInput(_Model):
    """An image of a request.

    - `image`: a PNG, JPEG, WebP or GIF as a data URL or in base64. The server fetches no URLs.
    """

    image: str

    @property
    def parts(self) -> list[Self]:
        """The image."""
        return [self]

    @property
    def encoded_size(self) -> int:
        """Number of characters to decode."""
        return len(self.image)

    def __len__(self) -> int:
        """Return the number of characters to tokenize: none."""
        return 0

    def file_bytes(self) -> bytes:
        """Decode the file; raises ImageError."""
        start, _, content = self.image.partition(",")
        if "://" in self.image[:_SCHEME]:
            raise ImageError(
                "it is a URL, which this server does not fetch: send the file itself, in "
                "base64 or as a data URL (data:image/png;base64,…)"
            )
        is_data_url = start.startswith("data:") and start.endswith(";base64")
        lines = (content if is_data_url else self.image).split()  # as MIME and base64(1) break it
        try:
            return base64.b64decode("".join(lines), validate=True)
        except (binascii.Error, ValueError):
            raise ImageError(
                "it is neither base64 nor a data URL with base64 (data:image/png;base64,…): send "
                "all bytes of the file in base64, with + and /, and with = at the end"
            ) from None


class TextPart(_Model):
    """A text.

    - `type`: always `text`.
    - `text`: the text.
    """

    type: Literal["text"]
    text: str

    @property
    def value(self) -> str:
        """Return the text."""
        return self.text


class ImageUrl(_Model):
    """An image as a data URL.

    - `detail`: ignored, because the model has one resolution.
    - `url`: a PNG, JPEG, WebP or GIF as a data URL or in base64; the server fetches no addresses.
    """

    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImageUrlPart(_Model):
    """An image, in the format of OpenAI and Cohere.

    - `type`: always `image_url`.
    - `image_url`: the object that has the image.
    """

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
    """An input of texts and images, for a model that reads several in one input.

    - `content`: texts and images in the order in which the model reads them; they get one vector.
    """

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


Input = TextOrIds | ImageInput | ContentInput
"""An input of a model that may also embed images, or texts with images."""


class Part(Protocol):
    """A part of an input's content, in any API."""

    @property
    def value(self) -> str | ImageInput: ...


def input_of_parts(parts: Sequence[Part]) -> str | ImageInput | ContentInput:
    """Return the only text or image of an input, or all of its parts."""
    values = [part.value for part in parts]
    return values[0] if len(values) == 1 else ContentInput.of(values)
