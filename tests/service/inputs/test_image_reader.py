"""Tests that images are prepared outside of the event loop, within limits."""

import asyncio
import base64
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell.engine.wire.messages import unpack_pixels
from embedwell.errors import BadRequest, TooLarge
from embedwell.http.request_context import RequestContext
from embedwell.inputs.image_reader import ImageReader, PreparedContent, PreparedImage
from embedwell.inputs.request_inputs import ContentInput, ImageInput, Input
from embedwell.limits.work_queue import WorkQueue
from embedwell_models.images.preprocessing import Pixels, Preprocessing
from embedwell_models.model_description import ModelDescription
from tests.models.image_models import SIDE, encoded, picture, write_clip
from tests.models.qwen3_vl import PROCESSOR, save, write_qwen3_vl

DATA = encoded(picture(70, 90))
IMAGE = ImageInput(image=base64.b64encode(DATA).decode())


class ThreadNames(Preprocessing):
    """Records the threads in which images are prepared."""

    names: frozenset[str] = frozenset()

    def pixels(self, data: bytes, max_pixels: int) -> Pixels:
        ThreadNames.names |= {threading.current_thread().name}
        return super().pixels(data, max_pixels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelDescription:
    path: Path = tmp_path_factory.mktemp("clip")
    write_clip(path)
    return ModelDescription.read(path)


def reader(
    folder: ModelDescription, max_pixels: int = 10_000, max_tokens: int = 100
) -> ImageReader:
    assert folder.preprocessing is not None
    return ImageReader(
        WorkQueue(timeout=60, max_wait=60),
        folder.images,
        ThreadNames(**vars(folder.preprocessing)),
        max_pixels=max_pixels,
        max_texts=10,
        max_tokens=max_tokens,
    )


def test_texts_stay_and_images_become_pixels_in_other_threads(folder: ModelDescription) -> None:
    context = RequestContext("a")
    inputs: list[Input] = ["a text", IMAGE, [1, 2]]
    text, image, ids = asyncio.run(reader(folder).prepare(context, inputs))
    assert (text, ids) == ("a text", [1, 2]) and isinstance(image, PreparedImage)
    assert folder.preprocessing is not None
    expected = folder.preprocessing.pixels(DATA, 10_000)
    np.testing.assert_array_equal(unpack_pixels(image.row().ids), expected)
    assert image.row().tokens == (SIDE // 16) ** 2 + 1
    assert threading.current_thread().name not in ThreadNames.names and ThreadNames.names
    assert context.tokenize_us > 0


def test_an_image_beyond_the_limit_raises_when_it_is_taken(folder: ModelDescription) -> None:
    (image,) = asyncio.run(reader(folder, max_pixels=99).prepare(RequestContext("a"), [IMAGE]))
    assert isinstance(image, PreparedImage)
    with pytest.raises(BadRequest, match="70 x 90 pixels, the limit is 99"):
        image.row()


def test_too_many_images_are_refused_before_they_are_decoded(folder: ModelDescription) -> None:
    broken = ImageInput(image="?")
    with pytest.raises(TooLarge, match="11 texts, but the limit is 10"):
        asyncio.run(reader(folder).prepare(RequestContext("a"), [broken] * 11))
    with pytest.raises(TooLarge, match="102 tokens or more, but the limit is 100"):
        asyncio.run(reader(folder).prepare(RequestContext("a"), [broken] * 6))


def test_the_memory_of_the_pixels_is_reserved(folder: ModelDescription) -> None:
    context = RequestContext("a")
    asyncio.run(reader(folder).prepare(context, [IMAGE, IMAGE]))
    assert context.memory.size == 2 * 3 * SIDE**2


def test_a_model_of_texts_alone_takes_no_image() -> None:
    queue = WorkQueue(timeout=60, max_wait=60)
    without = ImageReader(queue, max_pixels=9, max_texts=9, max_tokens=9)
    with pytest.raises(BadRequest, match="reads texts only") as caught:
        asyncio.run(without.prepare(RequestContext("a"), ["a text", IMAGE]))
    assert (caught.value.code, caught.value.index) == ("not_offered", 1)


def test_several_parts_are_refused_by_the_models_name(folder: ModelDescription) -> None:
    queue = WorkQueue(timeout=60, max_wait=60)
    options: dict[str, Any] = {"max_pixels": 9, "max_texts": 9, "max_tokens": 99}
    clip = ImageReader(queue, folder.images, folder.preprocessing, name="clip", **options)
    for each in (clip, ImageReader(queue, name="clip", **options)):
        with pytest.raises(
            BadRequest, match=r"input 1 has 2 parts .* model 'clip' embeds one"
        ) as caught:
            asyncio.run(each.prepare(RequestContext("a"), ["x", ContentInput.of(["a", IMAGE])]))
        assert (caught.value.code, caught.value.index) == ("not_offered", 1)
        text = ContentInput.of(["a"])
        assert asyncio.run(each.prepare(RequestContext("a"), ["x", text])) == ["x", "a"]


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> ModelDescription:
    path: Path = tmp_path_factory.mktemp("qwen3_vl")
    write_qwen3_vl(path)
    save(path, "preprocessor_config.json", PROCESSOR)
    return ModelDescription.read(path)


def content_reader(qwen: ModelDescription, max_tokens: int = 100) -> ImageReader:
    queue = WorkQueue(timeout=60, max_wait=60)
    options: dict[str, Any] = {"max_pixels": 10_000, "max_texts": 9, "max_tokens": max_tokens}
    return ImageReader(queue, None, None, qwen.patches, **options)


def test_texts_with_images_have_the_tokens_of_their_images(qwen: ModelDescription) -> None:
    context, parts = RequestContext("a"), ContentInput.of(["a", IMAGE, "b", IMAGE])
    inputs: list[Input] = ["a text", parts, IMAGE, ContentInput.of(["a", "b"]), [1, 2]]
    text, both, image, texts, ids = asyncio.run(content_reader(qwen).prepare(context, inputs))
    assert (text, ids) == ("a text", [1, 2])
    around = "<|vision_start|>" + "<|image_pad|>" * 6 + "<|vision_end|>"  # 64 x 96 pixels
    assert isinstance(both, PreparedContent) and both.text == f"a{around}b{around}"
    assert isinstance(image, PreparedContent) and image.text == around
    assert isinstance(texts, PreparedContent) and texts.text == "ab"
    assert context.memory.size == 3 * 64 * 96 * 3


def test_images_of_too_many_tokens_are_refused_while_they_are_decoded(
    qwen: ModelDescription,
) -> None:
    broken = ImageInput(image="?")
    for inputs in ([IMAGE, IMAGE, broken], [ContentInput.of([IMAGE, IMAGE, broken])]):
        with pytest.raises(TooLarge, match="12 tokens or more, but the limit is 11"):
            asyncio.run(content_reader(qwen, 11).prepare(RequestContext("a"), inputs))
        prepared = asyncio.run(content_reader(qwen, 12).prepare(RequestContext("a"), inputs))
        last = prepared[-1]
        assert isinstance(last, PreparedImage)
        with pytest.raises(BadRequest, match="the image cannot be read"):
            last.row()
