"""Tests of images as many patches as fit, against transformers' processor with Pillow."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers.models.gemma4.image_processing_pil_gemma4 import (
    Gemma4ImageProcessorPil,
    get_aspect_ratio_preserving_size,
)

from embedwell_models import families
from embedwell_models.errors import ImageError, ModelError
from embedwell_vision.images.filled_patches import FilledPatchPreprocessing, files
from embedwell_vision.specs import ImageTokenSpec
from tests.models.embedding_gemma2 import PATCH, PROCESSOR, VISION, write_images_model
from tests.models.families.files import edit
from tests.models.image_models import encoded, picture

LIMIT = 1 << 20
FILE = "processor_config.json"
IMAGE = PROCESSOR["image_processor"]


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_images_model(folder, vision={"position_embedding_size": 10_240})
    return folder


def spec_of(folder: Path) -> ImageTokenSpec:
    spec = families.read(folder).image_tokens
    assert isinstance(spec, ImageTokenSpec)
    return spec


def read(folder: Path, **options: Any) -> FilledPatchPreprocessing:
    (folder / FILE).write_text(json.dumps({"image_processor": {**IMAGE, **options}}))
    result = FilledPatchPreprocessing.read(folder, spec_of(folder), ("<", ">"))
    assert result is not None
    return result


@pytest.mark.parametrize("mode", ["RGB", "L", "1"])
@pytest.mark.parametrize(
    "size", [(1, 1), (1, 3), (400, 2), (3, 500), (91, 333), (108, 90)], ids=str
)
def test_patches_are_those_of_transformers(folder: Path, size: tuple[int, int], mode: str) -> None:
    data, ours = encoded(picture(*size, mode=mode)), read(folder)
    patches = ours.cut(pixels := ours.pixels(data, LIMIT))
    processor = Gemma4ImageProcessorPil(patch_size=PATCH, max_soft_tokens=70)
    with Image.open(BytesIO(data)) as image:
        theirs = processor(image.convert("RGB"), return_tensors="np")
    count = patches.rows * patches.columns
    assert ours.tokens(pixels) == count // 9 == theirs["num_soft_tokens_per_image"][0]
    # Ours are block by block, with whole channels, and from -1 to 1.
    places = theirs["image_position_ids"][0][:count]
    assert places.max(axis=0).tolist() == [patches.columns - 1, patches.rows - 1]
    block = places // 3
    order = np.lexsort((places[:, 0], places[:, 1], block[:, 0], block[:, 1]))
    values = theirs["pixel_values"][0][order].reshape(count, PATCH, PATCH, 3).transpose(0, 3, 1, 2)
    expected = 2 * (values.reshape(count, -1).astype(np.float32) - np.float32(0.5))
    np.testing.assert_allclose(patches.values, expected, atol=1e-6)


@pytest.mark.parametrize("tokens", [70, 140, 280, 560, 1120])
def test_sizes_are_those_of_transformers(folder: Path, tokens: int) -> None:
    ours, noise = read(folder, max_soft_tokens=tokens), np.random.default_rng(tokens)
    for _ in range(300):
        width, height = (2 ** noise.uniform(0, 13, 2)).astype(int).tolist()
        theirs = get_aspect_ratio_preserving_size(height, width, PATCH, tokens * 9, 3)
        assert ours.resized(width, height) == theirs[::-1]


def test_a_resized_image_has_a_limit(folder: Path) -> None:
    with pytest.raises(ImageError, match="the limit is 5000"):
        read(folder).pixels(encoded(picture(40, 40)), 5000)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *([("do_resize", False), ("do_normalize", True), ("do_rescale", False)]),
        *([("patch_size", 16), ("pooling_kernel_size", 2), ("max_soft_tokens", 100)]),
        *([("image_processor_type", "Qwen2VLImageProcessor"), ("resample", 9)]),
        ("size", {"height": 224, "width": 224}),
    ],
)
def test_other_options_are_refused_by_name(folder: Path, key: str, value: Any) -> None:
    with pytest.raises(ModelError, match=rf"image_processor\.{key}"):
        read(folder, **{key: value})


def test_more_patches_than_the_tables_have_are_refused(tmp_path: Path) -> None:
    write_images_model(tmp_path)
    edit(tmp_path, vision_config={**VISION, "position_embedding_size": 209})
    with pytest.raises(ModelError, match="max_soft_tokens = 70 is not supported"):
        read(tmp_path)


def test_other_texts_of_image_tokens_are_refused(tmp_path: Path) -> None:
    write_images_model(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"boi_token": "<start>"}))
    with pytest.raises(ModelError, match="boi_token = '<start>'"):
        read(tmp_path)


def test_a_processor_of_other_media_has_no_images(tmp_path: Path) -> None:
    write_images_model(tmp_path)
    assert files(tmp_path) == [tmp_path / FILE]
    (tmp_path / FILE).write_text(json.dumps({"feature_extractor": {}}))
    assert files(tmp_path) == []
    assert FilledPatchPreprocessing.read(tmp_path, spec_of(tmp_path), ("", "")) is None
