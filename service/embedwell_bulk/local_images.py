"""A model in this process as a TextEncoder of images, which a thread reads ahead."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from pyarrow.fs import PyFileSystem

from embedwell.settings.settings import Settings
from embedwell_bulk import BulkError
from embedwell_bulk.columns import ImageAndText
from embedwell_bulk.files import resolve_filesystem
from embedwell_bulk.local_model import (
    LocalModel,
    check_dense,
    described_tokens,
    load_any_model,
    pooled,
    refuse_pooling,
)
from embedwell_bulk.text_encoder import Advance, LocalEncoder, TokenVectors
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import (
    ImageError,
    ImageTokensError,
    ModelError,
    PromptTooLongError,
    UnsplittableTextError,
)
from embedwell_models.vectors import Floats, normalize
from embedwell_models.vision import Pages, Pixels
from embedwell_vision.images.several import File, prepare_ahead

_DECODERS = _FETCHERS = 4  # threads

Read = TypeVar("Read", Pixels, list[Pixels])
"""The pixels of an image, or of the images that a page becomes."""


@dataclass(frozen=True)
class ImageFiles(Generic[Read]):
    """Reader of images as the pixels of a model.

    pixels: decodes and resizes the bytes of a file, within a number of pixels. max_pixels: limit of
    one image, and of all that are decoded at once. batch: images that are yielded together.
    """

    pixels: Callable[[bytes, int], Read]
    max_pixels: int
    batch: int = _DECODERS

    def read(self, images: Sequence[bytes | str]) -> Iterator[list[Read | str]]:
        """Yield batches of pixels, or of reasons; the next one is decoded meanwhile.

        An image is the bytes of a file, or the address of a file.
        """
        with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(_FETCHERS) as fetchers:
            begun: deque[Future[list[Read | str]]] = deque()
            for first in range(0, len(images), self.batch):
                files = _fetched_ahead(images[first : first + self.batch], fetchers)
                begun.append(reader.submit(self._read, files))
                if len(begun) == 2:
                    yield begun.popleft().result()
            for last in begun:
                yield last.result()

    def _read(self, files: Sequence[File]) -> list[Read | str]:
        """Return the pixels of each image, or the reason why it has none."""
        ahead = prepare_ahead(files, self.pixels, self.max_pixels, _DECODERS)
        return [_pixels_or_reason(prepared) for prepared in ahead]


def _fetched_ahead(images: Sequence[bytes | str], pool: Executor) -> list[File]:
    """Return a function for each image that returns its file while the next ones are fetched."""
    begun = list[Future[bytes]]()

    def fetched(index: int) -> bytes:
        for image in images[len(begun) : index + _FETCHERS]:
            begun.append(pool.submit(_file_bytes, image))
        return begun[index].result()  # again, if its error is raised again

    return [partial(fetched, index) for index in range(len(images))]


class _FileError(ImageError):
    """The file of an image cannot be read."""


def _pixels_or_reason(prepared: Callable[[], Read]) -> Read | str:
    try:
        return prepared()
    except _FileError as error:
        return f"the file cannot be read: {error}"
    except ImageError as error:
        return f"the image cannot be read: {error}"


def _file_bytes(image: bytes | str) -> bytes:
    """Return the bytes of a file, or those at an address; raises _FileError."""
    if isinstance(image, bytes):
        return image
    try:
        return _content(image)
    except (BulkError, OSError) as error:
        raise _FileError(str(error)) from None


def _content(address: str) -> bytes:
    if not address:
        raise BulkError("its path is empty")
    files, path = resolve_filesystem(address)
    if isinstance(files, PyFileSystem):  # fsspec's, some of which fetch from any server
        raise BulkError(f"{address}: images are not fetched from such addresses")
    with files.open_input_file(path) as file:
        content: bytes = file.read()
    return content


@dataclass(frozen=True)
class _ImageModel(LocalEncoder, Generic[Read]):
    """A model in this process as a TextEncoder of inputs with images. files: reads the images."""

    model: LocalModel
    files: ImageFiles[Read]

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def description(self) -> Mapping[str, Any]:
        return {**self.model.description, "image_precision": self.model.embedder.image_dtype}


@dataclass(frozen=True)
class LocalImages(_ImageModel[Pixels]):
    """A model whose images have an encoder of their own, as a TextEncoder of inputs without texts.

    files: reads as many images as a forward pass has.
    """

    def embed(
        self, inputs: Sequence[ImageAndText], advance: Advance
    ) -> tuple[Floats, Mapping[int, str]]:
        """Embed inputs with images."""
        vectors = np.zeros((len(inputs), self.dim), dtype=np.float32)
        rejected: dict[int, str] = {}
        start = 0
        for read in self.files.read([each.image for each in inputs if each.image is not None]):
            pixels: dict[int, Pixels] = {}
            for index, image in enumerate(read, start):
                if isinstance(image, str):
                    rejected[index] = image
                else:
                    pixels[index] = image
            if pixels:
                vectors[[*pixels]] = self._vectors([*pixels.values()])
            advance(len(read))
            start += len(read)
        return vectors, rejected

    def _vectors(self, pixels: Sequence[Pixels]) -> Floats:
        embedder = self.model.embedder
        vectors = embedder.encode_images(pixels)
        return normalize(vectors) if embedder.recipe.normalize else vectors


@dataclass(frozen=True)
class LocalTextsWithImages(_ImageModel[Pixels]):
    """A model whose images are tokens of a text, as a TextEncoder of images, texts, and both."""

    def embed(
        self, inputs: Sequence[ImageAndText], advance: Advance
    ) -> tuple[Floats, Mapping[int, str]]:
        """Embed inputs one by one; those without an image as texts, many at once."""
        vectors = np.zeros((len(inputs), self.dim), dtype=np.float32)
        texts = [index for index, each in enumerate(inputs) if each.image is None]
        of_texts, reasons = self.model.embed([inputs[index].text or "" for index in texts], advance)
        vectors[texts] = of_texts
        rejected = {texts[index]: reason for index, reason in reasons.items()}
        with_image = {i: each.image for i, each in enumerate(inputs) if each.image is not None}
        images = (image for batch in self.files.read([*with_image.values()]) for image in batch)
        for index, image in zip(with_image, images, strict=True):
            vector = self._vector(image, inputs[index].text)
            if isinstance(vector, str):
                rejected[index] = vector
            else:
                vectors[index] = vector
            advance(1)
        return vectors, rejected

    def _vector(self, image: Pixels | str, text: str | None) -> Floats | str:
        """Return the vector of an input, or the reason why it has none."""
        if isinstance(image, str):
            return image
        parts: list[str | Pixels] = [image] if text is None else [image, text]
        embedder, prompt = self.model.embedder, self.model.prompt
        try:
            vector: Floats = embedder.embed_contents([parts], prompt=prompt)[0]
        except UnsplittableTextError as error:
            return error.problem
        except ImageTokensError as error:
            return str(error)
        except (ModelError, PromptTooLongError) as error:  # the first input loads the image encoder
            raise BulkError(str(error)) from None
        return vector


@dataclass(frozen=True)
class LocalPages(_ImageModel[list[Pixels]]):
    """A model with a vector for each token of an image, as a TextEncoder of inputs without texts.

    pages: prepares the images. pool_factor: divisor of the number of vectors.
    """

    pages: Pages
    pool_factor: int = 1

    @property
    def description(self) -> Mapping[str, Any]:
        return {**super().description, **described_tokens(self.pool_factor)}

    def embed(
        self, inputs: Sequence[ImageAndText], advance: Advance
    ) -> tuple[TokenVectors, Mapping[int, str]]:
        """Embed images one by one."""
        each: list[Floats] = []
        rejected: dict[int, str] = {}
        read = self.files.read([item.image for item in inputs if item.image is not None])
        for index, images in enumerate(image for batch in read for image in batch):
            vectors = images if isinstance(images, str) else self._vectors(images)
            if isinstance(vectors, str):
                rejected[index] = vectors
                vectors = np.empty((0, self.dim), dtype=np.float32)
            each.append(vectors)
            advance(1)
        return TokenVectors(each, self.dim), rejected

    def _vectors(self, images: Sequence[Pixels]) -> Floats | str:
        """Return the vectors of a page (n, dim), or the reason why it has none."""
        embedder = self.model.embedder
        (row,) = embedder.tokenizer.encode([self.pages.text(images)])
        try:
            return pooled(embedder.encode_page(row.ids, images), self.pool_factor)
        except ImageTokensError as error:
            return str(error)
        except ModelError as error:  # when the first page loads the image encoder
            raise BulkError(str(error)) from None


def load_local_images(
    settings: Settings, prompt: str | None = None, texts: bool = False, pool_factor: int = 1
) -> LocalImages | LocalTextsWithImages | LocalPages:
    """Load the model of the settings.

    prompt: None for the model's default prompt. texts: whether an input may have a text.
    pool_factor: divisor of the number of a page's vectors. Raises BulkError, also for a model
    without image encoder, and for one that does not read texts next to images, or prompts.
    """
    model = load_any_model(settings, prompt)
    embedder, most = model.embedder, settings.max_image_pixels
    if embedder.pages is None:
        refuse_pooling(model.name, pool_factor)
    if embedder.patches is not None:
        if embedder.patches.single:
            _refuse_texts(model.name, prompt, texts)
        if prompt is not None and not texts and not embedder.patches.takes_prompt:
            raise BulkError(f"{model.name} reads images without a prompt; leave out --prompt")
        return LocalTextsWithImages(model, ImageFiles(embedder.patches.pixels, most))
    if embedder.pages is not None:
        _refuse_texts(model.name, prompt, texts)
        files = ImageFiles(embedder.pages.images, most)
        return LocalPages(model, files, embedder.pages, pool_factor)
    check_dense(embedder)
    description = ModelDescription.read(settings.find_model(), settings.options)
    images, preprocessing = description.images, description.preprocessing
    if images is None or preprocessing is None:
        raise BulkError(f"{model.name} reads texts only; choose a model that embeds images")
    _refuse_texts(model.name, prompt, texts)
    batch = max(1, model.budget // images.tokens)
    return LocalImages(model, ImageFiles(preprocessing.pixels, most, batch))


def _refuse_texts(model: str, prompt: str | None, texts: bool) -> None:
    for option, is_set in (("column", texts), ("prompt", prompt is not None)):
        if is_set:
            raise BulkError(f"{model} reads images without texts; leave out --{option}")
