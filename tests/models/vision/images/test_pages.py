"""Pages to tiles and to the text around them, against transformers' processor."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models.config.json_config import read_json
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ImageError, ImageTokensError, ModelError
from embedwell_vision.images.pages import TiledPages
from tests.models.colmodernvbert import SIDE, write_processor
from tests.models.image_models import encoded, picture
from tests.models.page_models import edit_processor
from tests.models.qwen3_vl import save

SIZES = [(150, 60), (60, 151), (64, 64), (33, 47), (300, 299), (1, 90), (129, 7)]


def pages(folder: Path) -> TiledPages:
    found = ModelDescription.read(folder).pages
    assert isinstance(found, TiledPages)
    return found


def tile_values(read: TiledPages, image: bytes) -> Any:
    tiles = read.tiles(read.images(image, 1 << 24))
    table = read.table()
    return np.stack([table[np.arange(3)[:, None, None], each.transpose(2, 0, 1)] for each in tiles])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": {"longest_edge": 3 * SIDE}, "resample": 3},
        {"size": {"longest_edge": SIDE}},
        {"do_image_splitting": False},
        {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4], "do_rescale": False},
    ],
    ids=["tiles", "more", "one", "unsplit", "values"],
)
def test_pixels_and_ids_are_those_of_transformers(options: dict[str, Any], tmp_path: Path) -> None:
    processor = write_processor(tmp_path, image=options, max_length=1024)
    read, tokenizer = pages(tmp_path), ModelDescription.read(tmp_path).tokenizer()
    for size in SIZES:
        image = picture(*size)
        expected = processor.process_images([image])
        values = tile_values(read, encoded(image))
        assert np.array_equal(values, expected["pixel_values"][0].numpy())
        images = read.images(encoded(image), 1 << 24)
        (row,) = tokenizer.encode([read.text(images)])
        assert list(row.ids) == expected["input_ids"][0].tolist()
        read.check_tokens(row.ids, images)


def test_the_options_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    write_processor(tmp_path, visual_prompt_prefix="<image>Read it.", query_prefix="Find: ")
    before = pages(tmp_path)
    options = read_json(tmp_path / "processor_config.json")
    save(tmp_path, "preprocessor_config.json", options.pop("image_processor"))
    save(tmp_path, "processor_config.json", options)
    assert pages(tmp_path) == before
    assert before.prompt == "<image>Read it."
    assert ModelDescription.read(tmp_path).recipe.prompts == {"query": "Find: ", "document": ""}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *([("do_resize", False), ("max_image_size", {"longest_edge": 32}), ("own", 1)]),
        *([("size", {"height": 64}), ("image_processor_type", "Own")]),
    ],
)
def test_other_options_of_images_are_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    write_processor(tmp_path)
    images = read_json(tmp_path / "processor_config.json")["image_processor"]
    edit_processor(tmp_path, image_processor={**images, key: value})
    with pytest.raises(ModelError, match=key):
        ModelDescription.read(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"), [("image_seq_len", 5), ("visual_prompt_prefix", "none"), ("own", 1)]
)
def test_other_options_of_the_processor_are_refused_by_name(
    key: str, value: Any, tmp_path: Path
) -> None:
    write_processor(tmp_path)
    edit_processor(tmp_path, **{key: value})
    with pytest.raises(ModelError, match=key):
        ModelDescription.read(tmp_path)


def test_limits_hold_for_the_image_and_for_its_copies(tmp_path: Path) -> None:
    write_processor(tmp_path)
    read = pages(tmp_path)
    with pytest.raises(ImageError, match="the limit is 1000"):
        read.images(encoded(picture(40, 40)), 1000)
    with pytest.raises(ImageError, match="128 x 128 pixels"):
        read.images(encoded(picture(40, 40)), 10_000)
    images = read.images(encoded(picture(40, 40)), 1 << 20)
    with pytest.raises(ImageTokensError, match="has 20 tokens, of which 3 fit"):
        read.check_tokens([read.spec.token_id] * 3, images)
