"""Decode images of a request and prepare their pixels, outside the event loop."""

import time
from collections.abc import Mapping, Sequence

from embedwell.engine.wire.messages import pack_pixels
from embedwell.errors import BadRequest
from embedwell.http.request_context import RequestContext
from embedwell.inputs.image_input import ImageInput, PreparedImage
from embedwell.inputs.input_row import InputRow
from embedwell.inputs.options import Input, TextOrIds
from embedwell.limits.request_limits import check_input_count, check_tokens
from embedwell.limits.work_queue import WorkQueue
from embedwell_models.config.checkpoint_layout import ImageSpec
from embedwell_models.errors import ImageError
from embedwell_models.images.preprocessing import Preprocessing
from embedwell_models.tokenizer.steps import Steps


class ImageReader:
    """Replaces the images among a request's inputs with their pixels."""

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        queue: WorkQueue,
        spec: ImageSpec | None = None,
        preprocessing: Preprocessing | None = None,
        *,
        max_pixels: int,
        max_texts: int,
        max_tokens: int,
    ) -> None:
        """queue: decodes, image by image.

        spec: configuration of the model's image encoder, None without one.
        preprocessing: preparation of the pixels.
        max_pixels: limit of one image.
        max_texts, max_tokens: limits of a request.
        """
        self._spec, self._preprocessing = spec, preprocessing
        self._queue, self._max_pixels = queue, max_pixels
        self._max_texts, self._max_tokens = max_texts, max_tokens

    async def prepare(
        self, context: RequestContext, inputs: Sequence[Input]
    ) -> Sequence[TextOrIds | PreparedImage]:
        """Prepare the images of a request; texts are returned unchanged.

        Raises BadRequest for a model without images, TooLarge, Overloaded and TimedOut. An image
        that cannot be read raises its error when its row is requested.
        """
        images = {i: item for i, item in enumerate(inputs) if isinstance(item, ImageInput)}
        if not images:
            return [item for item in inputs if not isinstance(item, ImageInput)]
        check_input_count(len(inputs), self._max_texts)
        self._check(context, images)
        start = time.perf_counter()
        context.tokenize_start = context.tokenize_start or start
        size = sum(len(item.image) for item in images.values())
        try:
            prepared = await self._queue.run(self._run(images), size, context.tokenize_us / 1e6)
        finally:
            context.tokenize_us += round((time.perf_counter() - start) * 1e6)
        return [
            prepared[index] if isinstance(item, ImageInput) else item
            for index, item in enumerate(inputs)
        ]

    def _check(self, context: RequestContext, images: Mapping[int, ImageInput]) -> None:
        if self._spec is None:
            raise BadRequest(
                "this model reads texts only; send no images",
                code="not_offered",
                index=next(iter(images)),
            )
        check_tokens(context.tokens + len(images) * self._spec.tokens, self._max_tokens)
        context.memory.grow(len(images) * 3 * self._spec.image_size**2)

    def _run(self, images: Mapping[int, ImageInput]) -> Steps[dict[int, PreparedImage]]:
        prepared = {}
        for index, image in images.items():
            prepared[index] = self._prepared(image, index)
            yield
        return prepared

    def _prepared(self, image: ImageInput, index: int) -> PreparedImage:
        assert self._spec is not None and self._preprocessing is not None
        try:
            pixels = self._preprocessing.pixels(image.file_bytes(), self._max_pixels)
        except ImageError as error:
            return PreparedImage(
                BadRequest(
                    f"input {index}: the image cannot be read: {error}",
                    code="invalid_image",
                    index=index,
                )
            )
        return PreparedImage(InputRow(pack_pixels(pixels), 0, image_tokens=self._spec.tokens))
