"""Tests of reading images, within limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import InputError, TooManyTokensError
from embedwell_models.read.inputs import (
    ImageFile,
    Input,
    PreparedInput,
    encoded_size,
    find_images,
    image_reader,
)
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_vision.reader import ImageReader, PreparedContent, PreparedImage
from tests.models.image_models import SIDE, encoded, picture, write_clip
from tests.models.qwen3_vl import PROCESSOR, save, write_qwen3_vl


@dataclass(frozen=True)
class Image:
    """The bytes of an image."""

    data: bytes

    @property
    def encoded_size(self) -> int:
        return len(self.data)

    def file_bytes(self) -> bytes:
        return self.data


@dataclass(frozen=True)
class Parts:
    """An input of texts and images."""

    parts: Sequence[str | ImageFile]

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts if isinstance(part, str))


DATA = encoded(picture(70, 90))
IMAGE = Image(DATA)
BROKEN = Image(b"?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelDescription:
    path: Path = tmp_path_factory.mktemp("clip")
    write_clip(path)
    return ModelDescription.read(path)


def reader(
    folder: ModelDescription, max_pixels: int = 10_000, max_tokens: int = 100
) -> ImageReader:
    return ImageReader(
        folder.images, folder.preprocessing, max_pixels=max_pixels, max_tokens=max_tokens
    )


def prepare(reader: ImageReader, inputs: Sequence[Input]) -> dict[int, PreparedInput]:
    steps, _ = reader.prepare(find_images(inputs)[1], 0)
    return run_to_completion(steps)


def test_an_image_becomes_its_pixels(folder: ModelDescription) -> None:
    prepared = prepare(reader(folder), ["a text", Parts([IMAGE]), [1, 2]])
    assert [*prepared] == [1]
    image = prepared[1]
    assert isinstance(image, PreparedImage) and folder.preprocessing is not None
    row = image.row(None, 1)
    np.testing.assert_array_equal(row.images[0], folder.preprocessing.pixels(DATA, 10_000))
    assert (row.tokens, row.image_pixels) == ((SIDE // 16) ** 2 + 1, SIDE**2)
    assert not row.content


def test_the_door_of_the_core_returns_the_reader_of_a_model(folder: ModelDescription) -> None:
    load = image_reader(folder, name="clip", max_pixels=10_000, max_tokens=100)
    reader = load()
    assert isinstance(reader, ImageReader) and load() is reader
    (image,) = prepare(reader, [Parts([IMAGE])]).values()
    assert image.text is None and image.row(None, 0).images


def test_the_bytes_of_the_pixels_are_known_before_decoding(folder: ModelDescription) -> None:
    contents = find_images([Parts([IMAGE]), Parts([IMAGE])])[1]
    assert reader(folder).prepare(contents, 0)[1] == 2 * 3 * SIDE**2
    assert encoded_size(contents) == 2 * len(DATA)


def test_an_image_beyond_the_limit_raises_when_it_is_taken(folder: ModelDescription) -> None:
    (image,) = prepare(reader(folder, max_pixels=99), [Parts([IMAGE])]).values()
    assert isinstance(image, PreparedImage)
    with pytest.raises(InputError, match="70 x 90 pixels, the limit is 99"):
        image.row(None, 0)


def test_images_of_too_many_tokens_are_refused_before_they_are_decoded(
    folder: ModelDescription,
) -> None:
    with pytest.raises(TooManyTokensError, match="102 tokens or more, but the limit is 100"):
        reader(folder).prepare(find_images([Parts([BROKEN])] * 6)[1], 0)


def test_a_model_of_texts_alone_takes_no_image() -> None:
    without = ImageReader(name="of/texts", max_pixels=9, max_tokens=9)
    with pytest.raises(InputError, match="the model 'of/texts' reads texts only") as caught:
        prepare(without, ["a text", Parts([IMAGE])])
    assert (caught.value.code, caught.value.index) == ("not_offered", 1)


def test_several_parts_are_refused_by_the_models_name(folder: ModelDescription) -> None:
    options: dict[str, Any] = {"max_pixels": 9, "max_tokens": 99, "name": "clip"}
    clip = ImageReader(folder.images, folder.preprocessing, **options)
    for each in (clip, ImageReader(**options)):
        with pytest.raises(
            InputError, match=r"input 1 has 2 parts .* model 'clip' embeds one"
        ) as caught:
            prepare(each, ["x", Parts(["a", IMAGE])])
        assert (caught.value.code, caught.value.index) == ("not_offered", 1)


def test_a_content_of_one_text_is_a_text() -> None:
    assert find_images(["x", Parts(["a"]), [1]]) == (["x", "a", [1]], {})


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> ModelDescription:
    path: Path = tmp_path_factory.mktemp("qwen3_vl")
    write_qwen3_vl(path)
    save(path, "preprocessor_config.json", PROCESSOR)
    return ModelDescription.read(path)


def content_reader(qwen: ModelDescription, max_tokens: int = 100) -> ImageReader:
    return ImageReader(None, None, qwen.patches, max_pixels=10_000, max_tokens=max_tokens)


def test_texts_with_images_have_the_tokens_of_their_images(qwen: ModelDescription) -> None:
    inputs = [Parts(["a", IMAGE, "b", IMAGE]), Parts([IMAGE]), Parts(["a", "b"])]
    both, image, texts = prepare(content_reader(qwen), inputs).values()
    around = "<|vision_start|>" + "<|image_pad|>" * 6 + "<|vision_end|>"  # 64 x 96 pixels
    assert isinstance(both, PreparedContent) and both.text == f"a{around}b{around}"
    assert isinstance(image, PreparedContent) and image.text == around
    assert isinstance(texts, PreparedContent) and texts.text == "ab"
    assert [pixels.shape for pixels in both.images] == 2 * [(96, 64, 3)]


def test_images_of_too_many_tokens_are_refused_while_they_are_decoded(
    qwen: ModelDescription,
) -> None:
    for inputs in (
        [Parts([IMAGE]), Parts([IMAGE]), Parts([BROKEN])],
        [Parts([IMAGE, IMAGE, BROKEN])],
    ):
        with pytest.raises(TooManyTokensError, match="12 tokens or more, but the limit is 11"):
            prepare(content_reader(qwen, 11), inputs)
        last = [*prepare(content_reader(qwen, 12), inputs).values()][-1]
        assert isinstance(last, PreparedImage)
        with pytest.raises(InputError, match="the image cannot be read"):
            last.row(None, 0)


def test_of_several_images_the_broken_ones_are_named(qwen: ModelDescription) -> None:
    inputs: list[Sequence[str | ImageFile]]
    inputs = [[IMAGE] * 2, ["a", BROKEN, IMAGE], ["b"], [IMAGE, BROKEN, BROKEN], [IMAGE]]
    reader = ImageReader(patches=qwen.patches, max_pixels=10_000, max_tokens=100)
    prepared = prepare(reader, [Parts(parts) for parts in inputs])
    assert [*prepared] == [0, 1, 3, 4]
    for index in (1, 3):
        with pytest.raises(InputError, match=f"input {index}: the image") as caught:
            prepared[index].row(None, index)
        assert (caught.value.code, caught.value.index) == ("invalid_image", index)
    whole = [prepared[index] for index in (0, 4)]
    assert [len(each.images) for each in whole if isinstance(each, PreparedContent)] == [2, 1]
