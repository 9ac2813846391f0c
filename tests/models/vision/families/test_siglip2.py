"""Tests of SigLIP 2 with images of any proportions (NaFlex), against transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Siglip2ImageProcessorPil

from embedwell_models import families
from embedwell_models.config.json_config import read_object
from embedwell_models.cpu_backend import library
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_vision.images.preprocessing import Preprocessing
from embedwell_vision.options import read_other_encoder
from tests.models.families.exact import Expected, assert_near, exactly
from tests.models.image_models import encoded, picture, write_siglip2

SIZES = [(200, 100), (90, 333), (64, 64), (17, 40), (300, 1), (640, 480)]
IMAGES = [picture(*size, seed) for seed, size in enumerate(SIZES)]
FILES = [encoded(image) for image in IMAGES]
TEXTS = ["the license", "x", "a copyright of this work, such as it is"]
ISAS = ["auto", "none", *(cap for cap in library.lower_caps() if cap != "none")]


def load(folder: Path, isa: str = "auto", dtype: str = "float32") -> Embedder:
    return Embedder.load(folder, device="cpu", dtype=dtype, isa=isa)


def expected_images(model: Any, folder: Path) -> Expected:
    inputs = Siglip2ImageProcessorPil.from_pretrained(folder)(IMAGES, return_tensors="pt")
    vectors = exactly(lambda: model.get_image_features(**inputs).pooler_output)
    return vectors()


@pytest.mark.parametrize("isa", ISAS)
def test_images_have_the_vectors_of_transformers(isa: str, tmp_path: Path) -> None:
    expected = expected_images(write_siglip2(tmp_path), tmp_path)
    first, second = expected.values[:2]
    assert abs(first - second).max() > 0.1 * abs(expected.values).max()
    assert_near(load(tmp_path, isa).embed_images(FILES), expected)


@pytest.mark.parametrize(
    "options", [{"num_patches": 49}, {"patch_size": 8}, {"layer_norm_eps": 0.05}], ids=str
)
def test_every_option_has_the_vectors_of_transformers(options: Any, tmp_path: Path) -> None:
    expected = expected_images(write_siglip2(tmp_path, **options), tmp_path)
    assert_near(load(tmp_path).embed_images(FILES), expected)


def test_pixels_are_those_of_its_processor_to_the_bit(tmp_path: Path) -> None:
    write_siglip2(tmp_path, num_patches=256)
    spec = read_other_encoder(tmp_path)
    ours = Preprocessing.read(tmp_path, spec)
    processor: Any = Siglip2ImageProcessorPil.from_pretrained(tmp_path)
    assert ours is not None
    for image in [*IMAGES, picture(1, 300)]:
        expected = processor(image, return_tensors="np")
        rows, columns = expected["spatial_shapes"][0]
        pixels = ours.pixels(encoded(image), 1 << 24)
        assert pixels.shape == (16 * rows, 16 * columns, 3)
        values = ours.table()[np.arange(3), pixels].reshape(rows, 16, columns, 16, 3)
        patches = values.transpose(0, 2, 1, 3, 4).reshape(rows * columns, -1)
        np.testing.assert_array_equal(expected["pixel_values"][0, : rows * columns], patches)


@pytest.mark.parametrize("isa", ISAS)
def test_an_image_is_the_same_bits_alone_and_in_a_batch(isa: str, tmp_path: Path) -> None:
    write_siglip2(tmp_path)
    ours = load(tmp_path, isa)
    together = ours.embed_images(FILES * 2)
    for index, data in enumerate(FILES):
        alone = ours.embed_images([data])[0].tobytes()
        assert [row.tobytes() for row in together[index :: len(FILES)]] == [alone] * 2


def test_texts_have_the_vectors_of_transformers(tmp_path: Path) -> None:
    model = write_siglip2(tmp_path)
    ours = load(tmp_path)
    ids = torch.zeros(len(TEXTS), 64, dtype=torch.int64)
    for row, text in zip(ids, ours.tokenize(TEXTS), strict=True):
        row[: len(text)] = torch.tensor(text)
    expected = exactly(lambda: model.get_text_features(input_ids=ids).pooler_output)
    assert_near(ours.embed(TEXTS), expected())


@pytest.mark.parametrize("key", ["max_num_patches", "patch_size"])
def test_other_patches_than_those_of_the_encoder_are_refused(key: str, tmp_path: Path) -> None:
    write_siglip2(tmp_path)
    name = "preprocessor_config.json"
    options = read_object(tmp_path / name)
    (tmp_path / name).write_text(json.dumps({**options, key: 20}))
    with pytest.raises(ModelError, match=key):
        load(tmp_path)


@pytest.mark.parametrize(("key", "value"), [("num_patches", 15), ("vision_use_head", False)])
def test_other_encoders_are_refused(key: str, value: Any, tmp_path: Path) -> None:
    write_siglip2(tmp_path)
    config = read_object(tmp_path / "config.json")
    config["vision_config"][key] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=key):
        families.read(tmp_path)
