"""Inputs with images: what prepares their pixels, in steps, as decoding is slow."""

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Protocol

from embedwell_models import vision
from embedwell_models.model_description import ModelDescription
from embedwell_models.read.inputs import ImageContent, Input, InputRow, TextOrIds
from embedwell_models.tokenizer.steps import Steps


class PreparedInput(Protocol):
    """An image, or a text with images, whose pixels are prepared; `len` counts its characters.

    text: the text to tokenize; None for an image that has an encoder of its own. takes_prompt:
    whether the request's prompt precedes the text. new_bytes: of pixels, unless they were known
    before the preparation.
    """

    @property
    def text(self) -> str | None: ...

    @property
    def takes_prompt(self) -> bool: ...

    @property
    def new_bytes(self) -> int: ...

    def __len__(self) -> int: ...

    def row(self, text: InputRow | None, index: int) -> InputRow:
        """Return the tokenized input; raises InputError, also for images that cannot be read.

        text: the tokenized text. index: of the input.
        """
        ...


class ImageReader(Protocol):
    """Replaces the images among inputs with their pixels."""

    def prepare(
        self, contents: Mapping[int, ImageContent], tokens: int
    ) -> tuple[Steps[dict[int, PreparedInput]], int]:
        """Return the steps that prepare images by their indices, and the known bytes of the pixels.

        The bytes are 0 if they depend on the images. An image that cannot be read raises its error
        when its row is requested. tokens: those that the request has already.

        Raises InputError for a model without images, and TooManyTokensError, as do the steps.
        """
        ...


def image_reader(
    model: ModelDescription, *, name: str, max_pixels: int, max_tokens: int
) -> Callable[[], ImageReader]:
    """Return a function that returns the reader of a model's images, which the first call imports.

    name: the model's, for errors. max_pixels: limit of one image. max_tokens: limit of all inputs.
    """

    @cache
    def load() -> ImageReader:
        build: Callable[..., ImageReader] = pkgutil.resolve_name(vision.READER)
        preparations = model.images, model.preprocessing, model.patches, model.pages
        return build(*preparations, name=name, max_pixels=max_pixels, max_tokens=max_tokens)

    return load


def find_images(inputs: Sequence[Input]) -> tuple[list[TextOrIds], dict[int, ImageContent]]:
    """Return the texts and token ids, and by their indices the inputs that have images.

    Each input with images is an empty text among the texts. A content of a single text is a text.
    """
    texts, contents = list[TextOrIds](), dict[int, ImageContent]()
    for index, item in enumerate(inputs):
        if isinstance(item, str | list):
            texts.append(item)
            continue
        match item.parts:
            case [str(text)]:
                texts.append(text)
            case _:
                texts.append("")
                contents[index] = item
    return texts, contents


def encoded_size(contents: Mapping[int, ImageContent]) -> int:
    """Return the total size of the encoded images."""
    parts = (part for item in contents.values() for part in item.parts)
    return sum(part.encoded_size for part in parts if not isinstance(part, str))
