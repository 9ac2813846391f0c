"""Tests of resizing, cropping and normalization against transformers' processors with Pillow."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers import CLIPImageProcessorPil, CLIPProcessor, SiglipImageProcessorPil

from embedwell_models import families
from embedwell_models.errors import ImageError, ModelError
from embedwell_vision.images.preprocessing import Preprocessing, files, normalised_patches
from embedwell_vision.specs import ImageSpec
from tests.models.image_models import encoded, picture, write_clip, write_siglip

LIMIT = 1 << 20
SQUARE = {"height": 64, "width": 64}
CLIP = {"size": {"shortest_edge": 64}, "crop_size": SQUARE}
SIGLIP = {"size": SQUARE, "image_processor_type": "SiglipImageProcessor"}


def spec(folder: Path, write: Any = write_clip) -> ImageSpec:
    write(folder)
    images = families.read(folder).images
    assert isinstance(images, ImageSpec)
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


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1"])
@pytest.mark.parametrize("size", [(1, 1), (1, 3), (400, 2), (3, 500), (65, 63)], ids=str)
@pytest.mark.parametrize(("write", "options"), [(write_clip, CLIP), (write_siglip, SIGLIP)])
def test_odd_images_have_the_numbers_of_the_processor(
    write: Any, options: Any, size: tuple[int, int], mode: str, tmp_path: Path
) -> None:
    kind: Any = CLIPImageProcessorPil if write is write_clip else SiglipImageProcessorPil
    data = encoded(picture(*size, mode="RGBA").convert(mode))
    with Image.open(BytesIO(data)) as plain:
        expected = kind(**options)(plain, return_tensors="np")["pixel_values"][0]
    found = values(read(tmp_path, options, write), data)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_numbers_equal_those_of_the_siglip_processor(tmp_path: Path) -> None:
    image = picture(91, 333)
    theirs: Any = SiglipImageProcessorPil(size=SQUARE)
    expected = theirs(image, return_tensors="np")["pixel_values"][0]
    found = values(read(tmp_path, SIGLIP, write_siglip), encoded(image))
    np.testing.assert_array_equal(found, expected)


# Keys of the processors -> values of which each gives the numbers of transformers, or is refused.
EVERY_KEY: dict[str, list[Any]] = {
    **{f"do_{name}": [False, True] for name in ("resize", "center_crop", "rescale", "normalize")},
    **{f"do_{name}": [False, True] for name in ("convert_rgb", "pad")},
    **{"size": [64, 80, {"shortest_edge": 80}, SQUARE], "crop_size": [64, 32, SQUARE]},
    **{"default_to_square": [True, False], "resample": [0, 2], "rescale_factor": [0.01]},
    **{"image_mean": [[0.1, 0.2, 0.3], 0.5], "image_std": [[0.5, 0.6, 0.7], 0.5]},
    **{"pad_size": [SQUARE], "image_seq_length": [5], "disable_grouping": [True, False]},
    # Of the arrays that a call gives and takes, neither of which a file of an image has.
    **{"data_format": [], "input_data_format": [], "device": [], "return_tensors": []},
}


@pytest.mark.parametrize("size", [64, {"shortest_edge": 64}, SQUARE], ids=str)
@pytest.mark.parametrize("write", [write_clip, write_siglip])
def test_every_key_of_the_processors_has_its_effect_or_is_refused(
    write: Any, size: Any, tmp_path: Path
) -> None:
    kind: Any = CLIPImageProcessorPil if write is write_clip else SiglipImageProcessorPil
    usual = {**kind(size=size, crop_size=SQUARE).to_dict(), "size": size, "crop_size": SQUARE}
    keys = {
        key for base in kind.valid_kwargs.__mro__ for key in vars(base).get("__annotations__", ())
    }
    assert keys == EVERY_KEY.keys() and usual.keys() - keys == {"image_processor_type"}
    image, images = picture(91, 133), spec(tmp_path, write)
    for key, value in [(key, value) for key, tried in EVERY_KEY.items() for value in tried]:
        options = {**usual, key: value}
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(options))
        try:
            found = Preprocessing.read(tmp_path, images)
        except ModelError as error:
            assert key in str(error) or "size" in str(error) or "pixels wide" in str(error), (
                key,
                value,
            )
        else:
            assert found is not None
            expected = kind.from_pretrained(tmp_path)(image, return_tensors="np")
            np.testing.assert_array_equal(
                *(values(found, encoded(image)), expected["pixel_values"][0].astype(np.float32)),
                err_msg=f"{key} = {value}",
            )


def test_options_left_out_are_those_of_the_class(tmp_path: Path) -> None:
    found = read(tmp_path, CLIP)
    theirs: Any = CLIPImageProcessorPil(size=CLIP["size"], crop_size=SQUARE)
    values = found.normalization
    assert [[*values.mean], [*values.std]] == [list(theirs.image_mean), list(theirs.image_std)]
    assert (found.resample, values.scale) == (theirs.resample, theirs.rescale_factor)


def test_the_joint_file_of_newer_releases_counts(tmp_path: Path) -> None:
    images = spec(tmp_path)
    assert [path.name for path in files(tmp_path)] == ["preprocessor_config.json"]
    joint = {"image_processor": {**CLIP, "resample": 0}, "processor_class": CLIPProcessor.__name__}
    (tmp_path / "processor_config.json").write_text(json.dumps(joint))
    found = Preprocessing.read(tmp_path, images)
    assert found is not None and found.resample == 0
    assert [path.name for path in files(tmp_path)] == ["processor_config.json"]
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": None}))
    assert [path.name for path in files(tmp_path)] == ["preprocessor_config.json"]


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


@pytest.mark.parametrize("frames", [1, 2])
def test_each_byte_of_a_patch_becomes_the_number_of_its_channel(frames: int) -> None:
    random = np.random.default_rng(0)
    image = random.integers(0, 256, (8, 12, 3), dtype=np.uint8)
    table = random.standard_normal((3, 256), dtype=np.float32)
    patches = image.reshape(2, 4, 3, 4, 3).transpose(0, 2, 4, 1, 3)  # a view
    numbers = normalised_patches(patches, table, frames).reshape(2, 3, 3, frames, 4, 4)
    for (row, column, channel, frame, y, x), number in np.ndenumerate(numbers):
        assert number == table[channel, image[row * 4 + y, column * 4 + x, channel]], frame
