"""Pixels and options of tiles, against the steps of the authors' code."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_vision.images.tiles import TilePreprocessing
from embedwell_vision.options import value_table
from tests.models.image_models import encoded, picture
from tests.models.nemotron_vl import write_nemotron_vl

SIZES = [
    *((64, 64), (9, 9), (130, 64), (64, 200), (301, 299), (700, 33), (33, 700), (500, 333)),
    *((83, 279), (307, 104), (215, 215)),  # the last is ambiguous with 8 tiles
]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    "options",
    [
        *({}, {"max_input_tiles": 8}, {"max_input_tiles": 1}, {"use_thumbnail": False}),
        {"dynamic_image_size": False},
    ],
    ids=str,
)
def test_pixels_have_the_numbers_of_the_processor(
    options: dict[str, Any], size: tuple[int, int], tmp_path: Path
) -> None:
    reference = write_nemotron_vl(tmp_path, **options)
    description = ModelDescription.read(tmp_path)
    tiles, table = description.patches, value_table(description)
    assert isinstance(tiles, TilePreprocessing) and table is not None
    image = picture(*size)
    pixels = tiles.pixels(encoded(image), 1 << 20)
    channels, values = np.arange(3)[:, None, None], np.stack(tiles.tiles([pixels]))
    numbers = table[channels, values.transpose(0, 3, 1, 2)]
    assert np.array_equal(numbers, reference.pixels(image).numpy())


def test_the_normalisation_of_imagenet_is_that_of_the_processor(tmp_path: Path) -> None:
    write_nemotron_vl(tmp_path, norm_type="imagenet")
    table = value_table(ModelDescription.read(tmp_path))
    values = torch.arange(256).float().div(255)
    mean, std = (
        torch.tensor(each)[:, None] for each in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    )
    expected = ((values - mean) / std).bfloat16().float()
    assert table is not None and np.array_equal(table, expected.numpy())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("image_size", 48),
        ("num_image_token", 16),
        ("max_input_tiles", 13),
        ("num_channels", 1),
        ("norm_type", "own"),
        ("system_message", "Hi"),
        ("passage_prefix", "p:"),
        ("new", 1),
    ],
)
def test_other_processors_are_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    write_nemotron_vl(tmp_path, **{key: value})
    with pytest.raises(ModelError, match=key):
        ModelDescription.read(tmp_path)
