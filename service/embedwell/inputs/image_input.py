"""Images as a request contains them, and as the engine reads them."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict

from embedwell.engine.wire.messages import pack_content
from embedwell.errors import BadRequest, ServiceError
from embedwell.inputs.input_row import InputRow
from embedwell_models.errors import ImageError, ImageTokensError
from embedwell_models.images.pages import Pages
from embedwell_models.images.preprocessing import Pixels
from embedwell_models.images.tiles import ImageTokens

_SCHEME = 20  # characters within which another URL's scheme ends


class ImageInput(BaseModel):
    """An image of a request.

    - `image`: a PNG, JPEG, WebP or GIF as a data URL or in base64. The server fetches no URLs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    image: str

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


@dataclass(frozen=True, slots=True)
class PreparedContent:
    """A text with images, whose pixels are prepared, or a page.

    text: with the tokens of the images as text. images: (height, width, 3).
    """

    text: str
    images: Sequence[Pixels]
    patches: ImageTokens | Pages

    @property
    def takes_prompt(self) -> bool:
        """Whether the request's prompt precedes the text; that of a page has its own."""
        return not self.images or (
            isinstance(self.patches, ImageTokens) and self.patches.takes_prompt
        )

    def __len__(self) -> int:
        """Return the number of characters to tokenize."""
        return len(self.text)

    def row(self, text: InputRow, index: int) -> InputRow:
        """Return the tokenized input; raises BadRequest if its tokens do not fit the images.

        text: the tokenized text. index: of the input.
        """
        try:
            self.patches.check_tokens(text.ids, self.images)
        except ImageTokensError as error:
            message = f"input {index}: {error}"
            raise BadRequest(message, code="input_too_long", index=index) from None
        if not self.images:
            return text
        tokens = sum(map(self.patches.tokens, self.images))
        return replace(
            text,
            ids=pack_content(text.ids, self.images),
            image_tokens=len(text.ids),
            text_tokens=len(text.ids) - tokens,
            image_pixels=sum(pixels.size // 3 for pixels in self.images),
            content=True,
        )


@dataclass(frozen=True, slots=True)
class PreparedImage:
    """An image as a tokenized input, or the error of an input whose images cannot be read."""

    result: InputRow | ServiceError

    def __len__(self) -> int:
        """Return the number of characters to tokenize: none."""
        return 0

    def row(self) -> InputRow:
        """Return the tokenized input, which holds the pixels; raises the error."""
        if isinstance(self.result, ServiceError):
            raise self.result
        return self.result


PreparedInput = PreparedImage | PreparedContent
"""An image, or a text with images, whose pixels are prepared."""
