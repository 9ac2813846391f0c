"""Tests of resizing, cropping and normalization against transformers' processors with Pillow."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import CLIPImageProcessorPil, CLIPProcessor, SiglipImageProcessorPil

from embedwell_models import families
from embedwell_models.config.checkpoint_spec import ImageSpec
from embedwell_models.errors import ImageError, ModelError
from embedwell_models.images.preprocessing import Preprocessing, files
from tests.models.image_models import encoded, picture, write_clip, write_siglip

LIMIT = 1 << 20
SQUARE = {"height": 64, "width": 64}
CLIP = {"size": {"shortest_edge": 64}, "crop_size": SQUARE}
SIGLIP = {"size": SQUARE, "image_processor_type": "SiglipImageProcessor"}


def spec(folder: Path, write: Any = write_clip) -> ImageSpec:
    write(folder)
    images = families.read(folder).images
    assert images is not None
    return images


def read(folder: Path, options: Any, write: Any = write_clip) -> Preprocessing:
    images = spec(folder, write)
    (folder / "preprocessor_config.json").write_text(json.dumps(options))
    result = Preprocessing.read(folder, images)
    assert result is not None
    return result


def values(preprocessing: Preprocessing, data: bytes) -> Any:
    """The numbers that the model reads: (3, side, side)."""
    pixels = preprocessing.pixels(data, LIMIT)
    channels = np.moveaxis(pixels, -1, 0)
    tables = preprocessing.table()
    return np.stack([table[plane] for table, plane in zip(tables, channels, strict=True)])


@pytest.mark.parametrize(
    "options",
    [
        {},
        *({"resample": filter} for filter in range(6)),
        {"size": {"shortest_edge": 80}},
        {"size": 64, "crop_size": 64, "feature_extractor_type": "CLIPFeatureExtractor"},
        {"do_center_crop": False, "size": SQUARE},
        {"do_normalize": False},
        {"do_rescale": False},
        {"rescale_factor": 0.01, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.6, 0.7]},
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [(64, 64), (200, 100), (91, 333), (65, 64), (20, 31)], ids=str)
def test_numbers_equal_those_of_the_clip_processor(
    options: Any, size: tuple[int, int], tmp_path: Path
) -> None:
    image = picture(*size)
    theirs: Any = CLIPImageProcessorPil(**{**CLIP, **options})
    expected = theirs(image, return_tensors="np")["pixel_values"][0]
    found = values(read(tmp_path, {**CLIP, **options}), encoded(image))
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_numbers_equal_those_of_the_siglip_processor(tmp_path: Path) -> None:
    image = picture(91, 333)
    theirs: Any = SiglipImageProcessorPil(size=SQUARE)
    expected = theirs(image, return_tensors="np")["pixel_values"][0]
    found = values(read(tmp_path, SIGLIP, write_siglip), encoded(image))
    np.testing.assert_array_equal(found, expected)


def test_options_left_out_are_those_of_the_class(tmp_path: Path) -> None:
    found = read(tmp_path, CLIP)
    theirs: Any = CLIPImageProcessorPil(size=CLIP["size"], crop_size=SQUARE)
    assert [*found.mean] == list(theirs.image_mean) and [*found.std] == list(theirs.image_std)
    assert (found.resample, found.scale) == (theirs.resample, theirs.rescale_factor)


def test_the_joint_file_of_newer_releases_counts(tmp_path: Path) -> None:
    images = spec(tmp_path)
    assert [path.name for path in files(tmp_path)] == ["preprocessor_config.json"]
    joint = {"image_processor": {**CLIP, "resample": 0}, "processor_class": CLIPProcessor.__name__}
    (tmp_path / "processor_config.json").write_text(json.dumps(joint))
    found = Preprocessing.read(tmp_path, images)
    assert found is not None and found.resample == 0
    assert [path.name for path in files(tmp_path)] == ["processor_config.json"]


def test_a_folder_without_a_file_takes_no_images(tmp_path: Path) -> None:
    images = spec(tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    assert Preprocessing.read(tmp_path, images) is None
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"do_flip": True}, "do_flip"),
        ({"do_pad": True}, "do_pad"),
        ({"resample": 9}, "resample"),
        ({"do_resize": False}, "do_resize"),
        ({"do_convert_rgb": False}, "do_convert_rgb"),
        ({"image_mean": [0.5]}, "image_mean"),
        ({"image_std": [0.5, 0.0, 0.5]}, "image_std"),
        ({"crop_size": {"height": 64, "width": 32}}, "crop_size"),
        ({"crop_size": 32}, "images become 32 pixels wide and high, the model reads 64"),
        ({"size": {"shortest_edge": 32}}, "size"),
        ({"size": {"shortest_edge": 64, "longest_edge": 90}}, "size"),
        ({"size": {"height": 80, "width": 80}}, "size"),
        ({"image_processor_type": "ViTImageProcessor"}, "image_processor_type"),
    ],
    ids=str,
)
def test_an_option_that_is_not_supported_is_named(options: Any, named: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=named):
        read(tmp_path, {**CLIP, **options})


def test_a_strip_that_would_grow_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    preprocessing = read(tmp_path, CLIP)
    with pytest.raises(ImageError, match="64 x 320000 pixels"):
        preprocessing.pixels(encoded(picture(1, 5000)), LIMIT)
