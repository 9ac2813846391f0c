"""Tests of texts with images, against transformers' Qwen3-VL."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.torch_backend.device import CPU
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import OneDnnLinearFactory
from embedwell_vision.images.patches import Patches
from embedwell_vision.texts_with_images import (
    ImageTokenEncoder,
    TextsWithImages,
    axis_of_pairs,
    axis_positions,
)
from tests.models.families.checkpoint import assert_close
from tests.models.families.exact import exactly
from tests.models.image_tokens import GRIDS, OF_QWEN3, encoders, grid, image, read
from tests.models.qwen3_vl import VISION, write_model

LINEAR = OneDnnLinearFactory(torch.float32)
IMAGE = 90  # id of a token of an image


def texts_with_images(folder: Path, tower: ImageTokenEncoder) -> TextsWithImages:
    layout = families.read(folder)
    stored = weights.load(folder, layout)
    inputs = InputEmbeddings(layout.config, stored, CPU)
    encoder = TorchEncoder(inputs, TorchLayers(layout.config, stored, LINEAR, CPU))
    return TextsWithImages(read(folder), tower, inputs, encoder)


@exactly
def pooled(model: Any, given: dict[str, Tensor]) -> Tensor:
    """The last state of a text by transformers, and the mean of all."""
    states = model.model(**given).last_hidden_state[0]
    return torch.cat([states[-1], states.mean(0)])


@pytest.mark.parametrize("vision", OF_QWEN3, ids=range(len(OF_QWEN3)))
def test_a_text_with_images_has_the_states_of_transformers(
    vision: dict[str, Any], tmp_path: Path
) -> None:
    model, images = write_model(tmp_path, vision={**VISION, **vision}), read(tmp_path)
    all_images = [image(images, *each) for each in GRIDS]
    for tower in encoders(tmp_path):
        ours = texts_with_images(tmp_path, tower)
        for chosen in (all_images[:1], all_images[1:3], all_images):
            ids = [5, 7, 11]
            for each in chosen:
                ids += [20, *[IMAGE] * (each.rows * each.columns // 4), 21, 22]
            theirs = pooled(model, inputs(ids, chosen))
            batch = Batch.of([np.array(ids)])
            found = ours.vectors(batch, chosen, ("lasttoken", "mean"))
            assert_close(torch.from_numpy(found[0]), theirs)
            assert np.array_equal(found, ours.vectors(batch, chosen, ("lasttoken", "mean")))


def inputs(ids: list[int], images: Sequence[Patches]) -> dict[str, Tensor]:
    row = torch.tensor([ids])
    return {
        "input_ids": row,
        "pixel_values": torch.from_numpy(np.concatenate([each.values for each in images])),
        "image_grid_thw": grid(images),
        "mm_token_type_ids": (row == IMAGE).to(torch.int32),
    }


def test_axes_take_pairs_in_turns_or_in_parts() -> None:
    assert axis_of_pairs((3, 2, 2), 7, in_turns=True).tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert axis_of_pairs((3, 2, 2), 7, in_turns=False).tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_positions_continue_after_the_longer_side_of_an_image() -> None:
    is_image = np.array([0, 1, 1, 1, 1, 1, 1, 0, 0]) == 1
    assert axis_positions(is_image, [(2, 3)]).tolist() == [
        [0, 1, 1, 1, 1, 1, 1, 4, 5],
        [0, 1, 1, 1, 2, 2, 2, 4, 5],
        [0, 1, 2, 3, 1, 2, 3, 4, 5],
    ]
