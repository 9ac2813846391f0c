"""Reader of images: the pixels of images and of texts with images, in steps."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from embedwell_models.config.model_spec import SquareImageSpec
from embedwell_models.errors import ImageError, ImageTokensError, InputError
from embedwell_models.read.inputs import (
    ImageContent,
    ImageFile,
    InputRow,
    PreparedInput,
    check_tokens,
)
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.vision import ImageTokens, Pages, Pixels, Preprocessing
from embedwell_vision.images.several import Prepare, R, prepare_ahead
from embedwell_vision.images.tiles import ImageTokens as AnyImageTokens

_NO_IDS = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class PreparedContent:
    """A text with images, whose pixels are prepared, or a page.

    text: with the tokens of the images as text. images: (height, width, 3).
    """

    text: str
    images: Sequence[Pixels]
    patches: ImageTokens | Pages

    @property
    def new_bytes(self) -> int:
        """Bytes of the pixels."""
        return sum(pixels.nbytes for pixels in self.images)

    @property
    def takes_prompt(self) -> bool:
        """Whether the request's prompt precedes the text; that of a page has its own."""
        return not self.images or (
            isinstance(self.patches, AnyImageTokens) and self.patches.takes_prompt
        )

    def __len__(self) -> int:
        """Return the number of characters to tokenize."""
        return len(self.text)

    def row(self, text: InputRow | None, index: int) -> InputRow:
        """Return the tokenized input; raises InputError if its tokens do not fit the images.

        text: the tokenized text. index: of the input.
        """
        assert text is not None
        try:
            self.patches.check_tokens(text.ids, self.images)
        except ImageTokensError as error:
            message = f"input {index}: {error}"
            raise InputError(message, code="input_too_long", index=index) from None
        if not self.images:
            return text
        tokens = sum(map(self.patches.tokens, self.images))
        return replace(
            text,
            images=self.images,
            image_tokens=len(text.ids),
            text_tokens=len(text.ids) - tokens,
        )


@dataclass(frozen=True, slots=True)
class PreparedImage:
    """An image as a tokenized input, or the error of an input whose images cannot be read."""

    result: InputRow | InputError
    text: None = None
    takes_prompt: bool = False
    new_bytes: int = 0  # the pixels are counted before

    def __len__(self) -> int:
        """Return the number of characters to tokenize: none."""
        return 0

    def row(self, text: InputRow | None, index: int) -> InputRow:
        """Return the tokenized input, which holds the pixels; raises the error."""
        if isinstance(self.result, InputError):
            raise self.result
        return self.result


class ImageReader:
    """Replaces the images among inputs with their pixels."""

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        spec: SquareImageSpec | None = None,
        preprocessing: Preprocessing | None = None,
        patches: ImageTokens | None = None,
        pages: Pages | None = None,
        *,
        name: str = "",
        max_pixels: int,
        max_tokens: int,
    ) -> None:
        """spec: configuration of the model's image encoder, None without one.

        preprocessing: preparation of the pixels.
        patches: the same, for a model whose images are tokens of a text.
        pages: the same, for a model with a vector for each token of an image.
        name: the model's, for errors.
        max_pixels: limit of one image.
        max_tokens: limit of all inputs.
        """
        self._spec, self._preprocessing, self._patches = spec, preprocessing, patches
        self._pages, self._name = pages, name
        self._max_pixels, self._max_tokens = max_pixels, max_tokens

    def prepare(
        self, contents: Mapping[int, ImageContent], tokens: int
    ) -> tuple[Steps[dict[int, PreparedInput]], int]:
        """Return the steps that prepare images by their indices, and the known bytes of the pixels.

        For more see `embedwell_models.read.inputs`.
        """
        if self._patches is not None and not self._patches.single:
            return self._run_contents(self._patches, contents, tokens), 0
        images: dict[int, ImageFile] = {}
        for index, item in contents.items():
            match item.parts:
                case [image] if not isinstance(image, str):
                    images[index] = image
                case parts:
                    raise InputError(
                        f"input {index} has {len(parts)} parts of content, but the model "
                        f"{self._name!r} embeds one text or one image at a time; send each part "
                        "as an input of its own",
                        code="not_offered",
                        index=index,
                    )
        if self._pages is not None:
            return self._run_pages(self._pages, images, tokens), 0
        if self._spec is None:
            raise InputError(
                f"the model {self._name!r} reads texts only; send no images",
                code="not_offered",
                index=next(iter(images)),
            )
        check_tokens(tokens + len(images) * self._spec.tokens, self._max_tokens)
        return self._run(images), len(images) * 3 * self._spec.image_size**2

    def _run(self, images: Mapping[int, ImageFile]) -> Steps[dict[int, PreparedInput]]:
        assert self._spec is not None and self._preprocessing is not None
        prepared: dict[int, PreparedInput] = {}
        ahead = self._ahead(images.values(), self._preprocessing.pixels)
        for index, prepare in zip(images, ahead, strict=True):
            try:
                pixels = prepare()
                row = InputRow(_NO_IDS, 0, image_tokens=self._spec.tokens, images=(pixels,))
                prepared[index] = PreparedImage(row)
            except ImageError as error:
                prepared[index] = PreparedImage(_unreadable(index, error))
            yield
        return prepared

    def _run_pages(
        self, pages: Pages, images: Mapping[int, ImageFile], tokens: int
    ) -> Steps[dict[int, PreparedInput]]:
        """Prepare the images of pages one by one; raises TooManyTokensError.

        tokens: those that the request has already.
        """
        prepared: dict[int, PreparedInput] = {}
        ahead = self._ahead(images.values(), pages.images)
        for index, prepare in zip(images, ahead, strict=True):
            try:
                page = prepare()
            except ImageError as error:
                prepared[index] = PreparedImage(_unreadable(index, error))
                continue
            tokens += sum(map(pages.tokens, page))
            check_tokens(tokens, self._max_tokens)  # limits the memory, too
            prepared[index] = PreparedContent(pages.text(page), page, pages)
            yield
        return prepared

    def _run_contents(
        self,
        patches: ImageTokens,
        contents: Mapping[int, ImageContent],
        tokens: int,
    ) -> Steps[dict[int, PreparedInput]]:
        """Prepare the images one by one; raises TooManyTokensError.

        tokens: those that the request has already.
        """
        prepared: dict[int, PreparedInput] = {}
        files = (part for item in contents.values() for part in item.parts)
        ahead = self._ahead([file for file in files if not isinstance(file, str)], patches.pixels)
        for index, item in contents.items():
            parts = list[str | Pixels]()
            unread: PreparedImage | None = None
            for part in item.parts:
                if isinstance(part, str):
                    parts.append(part)
                    continue
                prepare = next(ahead)
                if unread is not None:
                    continue
                try:
                    pixels = prepare()
                except ImageError as error:
                    unread = PreparedImage(_unreadable(index, error))
                    continue
                parts.append(pixels)
                tokens += patches.tokens(pixels)
                check_tokens(tokens, self._max_tokens)  # limits the memory, too
                yield
            images = [part for part in parts if not isinstance(part, str)]
            content = PreparedContent(patches.text(parts), images, patches)
            prepared[index] = content if unread is None else unread
        return prepared

    def _ahead(self, images: Iterable[ImageFile], prepare: Prepare[R]) -> Iterator[Callable[[], R]]:
        return prepare_ahead([image.file_bytes for image in images], prepare, self._max_pixels)


def _unreadable(index: int, error: ImageError) -> InputError:
    return InputError(
        f"input {index}: the image cannot be read: {error}", code="invalid_image", index=index
    )
