"""Calls of the library that embed images, texts with images, and pages."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from embedwell_models.embedder import Embedder
from embedwell_models.encoder.threads import thread_count
from embedwell_models.loading.input_checks import check_text, kind
from embedwell_models.read.inputs import InputOptions
from embedwell_models.vectors import Floats, normalize
from embedwell_models.vision import ImageTokens, Pixels
from embedwell_vision.images.preprocessing import Preprocessing
from embedwell_vision.images.several import prepare_ahead


def embed_images(embedder: Embedder, images: bytes | Sequence[bytes], max_pixels: int) -> Floats:
    """Embed encoded images; see Embedder.embed_images."""
    single = isinstance(images, bytes)
    each = [images] if isinstance(images, bytes) else images
    if embedder.patches is None and embedder.pages is not None:
        raise ValueError("the model has a vector for each token of an image; use embed_pages")
    if embedder.patches is not None:
        contents = [[image] for image in each]
        vectors = embed_contents(embedder, contents, InputOptions(), max_pixels)
        return vectors[0] if single else vectors
    if not isinstance(embedder.preprocessing, Preprocessing):
        raise ValueError(f"the model has no image encoder; for texts use {embedder.right_call()}")
    _check_images(each)
    files = [partial(bytes, image) for image in each]
    ahead = prepare_ahead(files, embedder.preprocessing.pixels, max_pixels, thread_count())
    vectors = embedder.encode_images([prepared() for prepared in ahead])
    vectors = normalize(vectors) if embedder.recipe.normalize else vectors
    return vectors[0] if single else vectors


def embed_pages(embedder: Embedder, images: Sequence[bytes], max_pixels: int) -> list[Floats]:
    """Embed the tokens of images of pages; see Embedder.embed_pages."""
    if (pages := embedder.pages) is None:
        raise ValueError(
            f"the model has no vectors of an image's tokens; use {embedder.right_call()}"
        )
    _check_images(images)
    vectors = list[Floats]()
    files = [partial(bytes, image) for image in images]
    for prepared in prepare_ahead(files, pages.images, max_pixels):
        pixels = prepared()
        (row,) = embedder.tokenizer.encode([pages.text(pixels)])
        vectors.append(embedder.encode_page(row.ids, pixels))
    return vectors


def embed_contents(
    embedder: Embedder,
    contents: Sequence[Sequence[str | bytes | Pixels]],
    options: InputOptions,
    max_pixels: int,
) -> Floats:
    """Embed inputs of texts and images; see Embedder.embed_contents. options: of their reading."""
    if (patches := embedder.patches) is None:
        raise ValueError(
            f"the model reads no texts with images; for texts use {embedder.right_call()}"
        )
    for index, content in enumerate(contents):
        _check_content(patches, content, index)
    files = [partial(bytes, part) for each in contents for part in each if isinstance(part, bytes)]
    ahead = prepare_ahead(files, patches.pixels, max_pixels)
    vectors = np.empty((len(contents), embedder.dim), dtype=np.float32)
    for index, content in enumerate(contents):
        parts = [next(ahead)() if isinstance(part, bytes) else part for part in content]
        images = [part for part in parts if not isinstance(part, str)]
        unprompted = images and not patches.takes_prompt
        of_content = InputOptions(prompt="") if unprompted else options
        (row,) = embedder.reader.rows([patches.text(parts)], of_content, index)
        vectors[index] = embedder.encode_with_images(row.ids, images)[0]
    return normalize(vectors) if embedder.recipe.normalize else vectors


def _check_content(
    patches: ImageTokens, content: Sequence[str | bytes | Pixels], index: int
) -> None:
    """Raise TypeError or ValueError for an input that is not a list of texts and images."""
    if isinstance(content, str | bytes | np.ndarray) or not content:
        raise TypeError(f"input {index} is {kind(content)}, not a list of texts and images")
    if patches.single and len(content) > 1:
        raise ValueError(f"input {index}: the model embeds one text or one image at a time")
    for part in content:
        if not isinstance(part, bytes | np.ndarray):
            check_text(part, f"a part of input {index}")


def _check_images(images: Any) -> None:
    """Raise TypeError for anything but a sequence of bytes."""
    if isinstance(images, bytes):
        raise TypeError("images are a list of bytes, not bytes")
    for index, image in enumerate(images):
        if not isinstance(image, bytes):
            raise TypeError(f"image {index} is of the type {type(image).__name__}, not bytes")
