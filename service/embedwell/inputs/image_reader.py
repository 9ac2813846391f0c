"""Images as the engine reads them: decoded and prepared outside the event loop."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from embedwell.engine.wire.messages import pack_content, pack_pixels
from embedwell.errors import BadRequest, ServiceError
from embedwell.http.request_context import RequestContext
from embedwell.inputs.input_row import InputRow
from embedwell.inputs.request_inputs import ContentInput, ImageInput, Input, TextOrIds
from embedwell.limits.request_limits import check_input_count, check_tokens
from embedwell.limits.work_queue import WorkQueue
from embedwell_models.config.checkpoint_layout import ImageSpec
from embedwell_models.errors import ImageError, ImageTokensError
from embedwell_models.images.pages import Pages
from embedwell_models.images.preprocessing import Pixels, Preprocessing
from embedwell_models.images.tiles import ImageTokens
from embedwell_models.tokenizer.steps import Steps

_WITH_PARTS = (ImageInput, ContentInput)


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


class ImageReader:
    """Replaces the images among a request's inputs with their pixels."""

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        queue: WorkQueue,
        spec: ImageSpec | None = None,
        preprocessing: Preprocessing | None = None,
        patches: ImageTokens | None = None,
        pages: Pages | None = None,
        *,
        name: str = "",
        max_pixels: int,
        max_texts: int,
        max_tokens: int,
    ) -> None:
        """queue: decodes, image by image.

        spec: configuration of the model's image encoder, None without one.
        preprocessing: preparation of the pixels.
        patches: the same, for a model whose images are tokens of a text.
        pages: the same, for a model with a vector for each token of an image.
        name: the model's, for errors.
        max_pixels: limit of one image.
        max_texts, max_tokens: limits of a request.
        """
        self._spec, self._preprocessing, self._patches = spec, preprocessing, patches
        self._pages, self._name = pages, name
        self._queue, self._max_pixels = queue, max_pixels
        self._max_texts, self._max_tokens = max_texts, max_tokens

    async def prepare(
        self, context: RequestContext, inputs: Sequence[Input]
    ) -> Sequence[TextOrIds | PreparedInput]:
        """Prepare the images of a request; texts are returned unchanged.

        Raises BadRequest for a model without images, TooLarge, Overloaded and TimedOut. An image
        that cannot be read raises its error when its row is requested.
        """
        items = [_only_part(item) if isinstance(item, ContentInput) else item for item in inputs]
        contents = {i: item for i, item in enumerate(items) if isinstance(item, _WITH_PARTS)}
        if not contents:
            return [item for item in items if not isinstance(item, _WITH_PARTS)]
        check_input_count(len(inputs), self._max_texts)
        steps = self._check(context, contents)
        start = time.perf_counter()
        context.tokenize_start = context.tokenize_start or start
        size = sum(len(image.image) for item in contents.values() for image in _images(item))
        try:
            prepared = await self._queue.run(steps, size, context.tokenize_us / 1e6)
        finally:
            context.tokenize_us += round((time.perf_counter() - start) * 1e6)
        cut = [item for item in prepared.values() if isinstance(item, PreparedContent)]
        context.memory.grow(sum(pixels.nbytes for item in cut for pixels in item.images))
        return [
            prepared[index] if isinstance(item, _WITH_PARTS) else item
            for index, item in enumerate(items)
        ]

    def _check(
        self, context: RequestContext, contents: Mapping[int, ImageInput | ContentInput]
    ) -> Steps[dict[int, PreparedInput]]:
        """Return the steps that prepare the images; raises BadRequest and TooLarge."""
        if self._patches is not None and not self._patches.single:
            return self._run_contents(self._patches, contents, context.tokens)
        images = {i: item for i, item in contents.items() if isinstance(item, ImageInput)}
        for index, item in contents.items():
            if isinstance(item, ContentInput):
                raise BadRequest(
                    f"input {index} has {len(item.content)} parts of content, but the model "
                    f"{self._name!r} embeds one text or one image at a time; send each part as an "
                    "input of its own",
                    code="not_offered",
                    index=index,
                )
        if self._pages is not None:
            return self._run_pages(self._pages, images, context.tokens)
        if self._spec is None:
            raise BadRequest(
                "this model reads texts only; send no images",
                code="not_offered",
                index=next(iter(images)),
            )
        check_tokens(context.tokens + len(images) * self._spec.tokens, self._max_tokens)
        context.memory.grow(len(images) * 3 * self._spec.image_size**2)
        return self._run(images)

    def _run(self, images: Mapping[int, ImageInput]) -> Steps[dict[int, PreparedInput]]:
        prepared: dict[int, PreparedInput] = {}
        for index, image in images.items():
            try:
                prepared[index] = PreparedImage(self._row(image))
            except ImageError as error:
                prepared[index] = PreparedImage(_unreadable(index, error))
            yield
        return prepared

    def _row(self, image: ImageInput) -> InputRow:
        assert self._spec is not None and self._preprocessing is not None
        pixels = self._preprocessing.pixels(image.file_bytes(), self._max_pixels)
        tokens, read = self._spec.tokens, pixels.size // 3
        return InputRow(pack_pixels(pixels), 0, image_tokens=tokens, image_pixels=read)

    def _run_pages(
        self, pages: Pages, images: Mapping[int, ImageInput], tokens: int
    ) -> Steps[dict[int, PreparedInput]]:
        """Prepare the images of pages one by one; raises TooLarge.

        tokens: those that the request has already.
        """
        prepared: dict[int, PreparedInput] = {}
        for index, image in images.items():
            try:
                page = pages.images(image.file_bytes(), self._max_pixels)
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
        contents: Mapping[int, ImageInput | ContentInput],
        tokens: int,
    ) -> Steps[dict[int, PreparedInput]]:
        """Prepare the images one by one; raises TooLarge.

        tokens: those that the request has already.
        """
        prepared: dict[int, PreparedInput] = {}
        for index, item in contents.items():
            parts: list[str | Pixels] = []
            try:
                for part in _parts(item):
                    if isinstance(part, str):
                        parts.append(part)
                        continue
                    pixels = patches.pixels(part.file_bytes(), self._max_pixels)
                    parts.append(pixels)
                    tokens += patches.tokens(pixels)
                    check_tokens(tokens, self._max_tokens)  # limits the memory, too
                    yield
            except ImageError as error:
                prepared[index] = PreparedImage(_unreadable(index, error))
                continue
            images = [part for part in parts if not isinstance(part, str)]
            prepared[index] = PreparedContent(patches.text(parts), images, patches)
        return prepared


def _only_part(item: ContentInput) -> Input:
    return item if len(item.content) > 1 else item.content[0].value


def _parts(item: ImageInput | ContentInput) -> Sequence[str | ImageInput]:
    return [item] if isinstance(item, ImageInput) else item.parts


def _images(item: ImageInput | ContentInput) -> Sequence[ImageInput]:
    return [part for part in _parts(item) if isinstance(part, ImageInput)]


def _unreadable(index: int, error: ImageError) -> BadRequest:
    return BadRequest(
        f"input {index}: the image cannot be read: {error}", code="invalid_image", index=index
    )
