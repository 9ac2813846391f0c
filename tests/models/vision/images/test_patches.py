"""Tests of images as patches, against transformers' processor with Pillow."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers import Qwen2VLImageProcessorPil

from embedwell_models import families
from embedwell_models.errors import ImageError, ImageTokensError, ModelError
from embedwell_vision.images.patches import PatchPreprocessing
from embedwell_vision.images.preprocessing import files
from embedwell_vision.specs import ImageTokenSpec
from tests.models.image_models import encoded, picture
from tests.models.qwen3_vl import PROCESSOR, write_model

LIMIT = 1 << 20
FILE = "preprocessor_config.json"


def image_spec(folder: Path) -> ImageTokenSpec:
    write_model(folder)
    spec = families.read(folder).image_tokens
    assert isinstance(spec, ImageTokenSpec)
    return spec


@pytest.fixture(scope="module", name="spec")
def fixture_spec(tmp_path_factory: pytest.TempPathFactory) -> ImageTokenSpec:
    return image_spec(tmp_path_factory.mktemp("model"))


def read(
    folder: Path, spec: ImageTokenSpec, options: Any, bounds: Any = (None, None)
) -> PatchPreprocessing:
    (folder / FILE).write_text(json.dumps(options))
    result = PatchPreprocessing.read(folder, spec, ("<", ">"), bounds)
    assert result is not None
    return result


def assert_equal(folder: Path, spec: ImageTokenSpec, options: Any, data: bytes) -> None:
    """Assert that an image has the numbers of transformers' processor to the bit."""
    ours = read(folder, spec, options)
    patches = ours.cut(pixels := ours.pixels(data, LIMIT))
    with Image.open(BytesIO(data)) as image:
        theirs = Qwen2VLImageProcessorPil.from_pretrained(folder)(image, return_tensors="np")
    assert theirs["image_grid_thw"].tolist() == [[1, patches.rows, patches.columns]]
    assert patches.values.dtype == np.float32
    np.testing.assert_array_equal(patches.values, theirs["pixel_values"].astype(np.float32))
    assert ours.tokens(pixels) == patches.rows * patches.columns // 4


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1"])
@pytest.mark.parametrize(
    "size", [(1, 1), (1, 3), (64, 64), (400, 2), (3, 500), (65, 63), (91, 333), (700, 500)], ids=str
)
def test_images_have_the_numbers_of_the_processor(
    size: tuple[int, int], mode: str, spec: ImageTokenSpec, tmp_path: Path
) -> None:
    data = encoded(picture(*size, mode="RGBA").convert(mode))
    assert_equal(tmp_path, spec, PROCESSOR, data)


@pytest.mark.parametrize(
    "options",
    [
        *({"resample": filter} for filter in range(6)),
        {"size": {"shortest_edge": 10_000, "longest_edge": 20_000}},
        {"min_pixels": 50_000, "max_pixels": 60_000},
        {"do_normalize": False},
        {"do_rescale": False},
        {"rescale_factor": 0.01, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.6, 0.7]},
    ],
    ids=str,
)
def test_options_have_their_effect(options: Any, spec: ImageTokenSpec, tmp_path: Path) -> None:
    for size in ((91, 333), (40, 20), (500, 300)):
        assert_equal(tmp_path, spec, {**PROCESSOR, **options}, encoded(picture(*size)))


def test_sizes_are_those_of_the_processor(spec: ImageTokenSpec, tmp_path: Path) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    ours = read(tmp_path, spec, PROCESSOR)
    draws = np.random.default_rng(0).integers(1, 3000, (500, 2)).tolist()
    for width, height in draws:
        if max(width, height) <= 200 * min(width, height):
            theirs = smart_resize(height, width, 32, ours.min_pixels, ours.max_pixels)
            assert ours.resized(width, height) == theirs[::-1]


# Keys of the processor -> values of which each gives the numbers of transformers, or is refused.
EVERY_KEY: dict[str, list[Any]] = {
    **{f"do_{name}": [False, True] for name in ("resize", "center_crop", "rescale", "normalize")},
    **{f"do_{name}": [False, True] for name in ("convert_rgb", "pad")},
    **{"size": [64, {"shortest_edge": 80}, {"height": 64, "width": 64}], "crop_size": [64]},
    **{"default_to_square": [True, False], "resample": [0, 2], "rescale_factor": [0.01]},
    **{"image_mean": [[0.1, 0.2, 0.3], 0.5], "image_std": [[0.5, 0.6, 0.7], 0.5]},
    **{"pad_size": [{"height": 64, "width": 64}], "image_seq_length": [5]},
    **{"min_pixels": [50_000], "max_pixels": [20_000], "patch_size": [14], "merge_size": [1]},
    **{"temporal_patch_size": [1], "disable_grouping": [True, False]},
    # Of the arrays that a call gives and takes, neither of which a file of an image has.
    **{"data_format": [], "input_data_format": [], "device": [], "return_tensors": []},
}


def test_every_key_of_the_processor_has_its_effect_or_is_refused(
    spec: ImageTokenSpec, tmp_path: Path
) -> None:
    kind: Any = Qwen2VLImageProcessorPil
    keys = {
        key for base in kind.valid_kwargs.__mro__ for key in vars(base).get("__annotations__", ())
    }
    assert keys == EVERY_KEY.keys()
    side = {"height": 64, "width": 64}
    usual = {**kind(**PROCESSOR).to_dict(), **PROCESSOR, "crop_size": side, "pad_size": side}
    data = encoded(picture(91, 133))
    for key, value in [(key, value) for key, tried in EVERY_KEY.items() for value in tried]:
        try:
            assert_equal(tmp_path, spec, {**usual, key: value}, data)
        except ModelError as error:
            assert key in str(error), (key, value)


def test_an_unknown_key_is_refused_by_name(spec: ImageTokenSpec, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="crop_margin"):
        read(tmp_path, spec, {**PROCESSOR, "crop_margin": 3})
    with pytest.raises(ModelError, match="image_processor_type"):
        read(tmp_path, spec, {**PROCESSOR, "image_processor_type": "CLIPImageProcessor"})
    with pytest.raises(ModelError, match="patch_size"):  # the default is not the model's
        read(tmp_path, spec, {"image_processor_type": "Qwen2VLImageProcessor"})


def test_the_joint_file_of_newer_releases_counts(spec: ImageTokenSpec, tmp_path: Path) -> None:
    assert PatchPreprocessing.read(tmp_path, spec, ("", ""), (None, None)) is None
    assert files(tmp_path) == []
    before = read(tmp_path, spec, PROCESSOR)
    assert files(tmp_path) == [tmp_path / FILE]
    joint = tmp_path / "processor_config.json"
    joint.write_text(json.dumps({"image_processor": {**PROCESSOR, "resample": 0}}))
    assert read(tmp_path, spec, PROCESSOR) != before
    assert files(tmp_path) == [joint]


def test_bounds_replace_those_of_the_file(spec: ImageTokenSpec, tmp_path: Path) -> None:
    ours = read(tmp_path, spec, PROCESSOR, (4096, 9000))
    assert ours.pixels(encoded(picture(500, 400)), LIMIT).shape == (64, 96, 3)
    assert ours.pixels(encoded(picture(3, 3)), LIMIT).shape == (64, 64, 3)


def test_strips_and_large_images_are_refused(spec: ImageTokenSpec, tmp_path: Path) -> None:
    ours = read(tmp_path, spec, PROCESSOR)
    assert ours.pixels(encoded(picture(200, 1)), LIMIT).shape[0] == 32
    with pytest.raises(ImageError, match="200 times the other"):
        ours.pixels(encoded(picture(201, 1)), LIMIT)
    with pytest.raises(ImageError, match="500 x 400 pixels, the limit is 10000"):
        ours.pixels(encoded(picture(500, 400)), 10_000)
    with pytest.raises(ImageError, match="the limit is 3000"):  # of the resized image
        ours.pixels(encoded(picture(8, 8)), 3000)


def test_the_tokens_of_a_text_have_to_fit_its_images(spec: ImageTokenSpec, tmp_path: Path) -> None:
    ours = read(tmp_path, spec, PROCESSOR)
    images = [np.zeros((64, side, 3), dtype=np.uint8) for side in (32, 96)]
    assert ours.text(["a", *images, "b"]) == (f"a<{spec.placeholder * 2}><{spec.placeholder * 6}>b")
    pad = [spec.id]
    ours.check_tokens([1, *pad * 2, 2, *pad * 6, 3], images)
    ours.check_tokens([1, 2], [])
    with pytest.raises(ImageTokensError, match="8 tokens, of which 5 fit into the 7 tokens"):
        ours.check_tokens([1, *pad * 2, 2, *pad * 3], images)
    for wrong in ([*pad * 6, 2, *pad * 2], [*pad, 2, *pad * 2, 3, *pad * 6], pad * 8):
        with pytest.raises(ImageTokensError, match="has the token"):
            ours.check_tokens(wrong, images)
