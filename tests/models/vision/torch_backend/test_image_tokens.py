"""Tests of images as tokens of a text, against transformers' Qwen3-VL."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.encoder.batch import Batch
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import OneDnnLinearFactory
from embedwell_vision.images.patches import Patches
from embedwell_vision.specs import ImageTokenSpec
from embedwell_vision.torch_backend.image_tokens import ImageTokenEncoder
from embedwell_vision.torch_backend.texts_with_images import (
    TextsWithImages,
    axis_of_pairs,
    axis_positions,
)
from tests.models import qwen2_vl
from tests.models.families.checkpoint import CPU, assert_close
from tests.models.qwen3_vl import VISION, write_model

LINEAR = OneDnnLinearFactory(torch.float32)
GRIDS = [(2, 2), (4, 6), (2, 16), (10, 4)]
VISIONS = [
    VISION,
    {**VISION, "depth": 3, "deepstack_visual_indexes": [0, 2], "hidden_size": 48, "num_heads": 3},
    {**VISION, "deepstack_visual_indexes": [], "num_position_embeddings": 81},
    {**VISION, "patch_size": 8, "temporal_patch_size": 1, "hidden_act": "gelu"},
]
IMAGE = 90  # id of a token of an image


def spec(folder: Path) -> tuple[ModelSpec, ImageTokenSpec]:
    layout = families.read(folder)
    assert isinstance(layout.image_tokens, ImageTokenSpec)
    return layout, layout.image_tokens


def image(images: ImageTokenSpec, rows: int, columns: int) -> Patches:
    """Random patches."""
    width = 3 * images.frames * images.patch_size**2
    noise = np.random.default_rng(rows * 100 + columns)
    return Patches(noise.normal(size=(rows * columns, width)).astype(np.float32), rows, columns)


def grid(images: Sequence[Patches]) -> Tensor:
    return torch.tensor([[1, each.rows, each.columns] for each in images])


def texts_with_images(folder: Path) -> TextsWithImages:
    layout, images = spec(folder)
    stored = weights.load(folder, layout)
    tower = ImageTokenEncoder(images, weights.load(folder, images.encoder), LINEAR, CPU)
    inputs = InputEmbeddings(layout.config, stored, CPU)
    encoder = TorchEncoder(inputs, TorchLayers(layout.config, stored, LINEAR, CPU))
    return TextsWithImages(images, tower, inputs, encoder)


@pytest.mark.parametrize("vision", VISIONS, ids=range(len(VISIONS)))
@torch.inference_mode()
def test_the_tokens_of_an_image_are_those_of_transformers(
    vision: dict[str, Any], tmp_path: Path
) -> None:
    model = write_model(tmp_path, vision=vision)
    _, images = spec(tmp_path)
    ours = ImageTokenEncoder(images, weights.load(tmp_path, images.encoder), LINEAR, CPU)
    for rows, columns in GRIDS:
        patches = image(images, rows, columns)
        pixels = torch.from_numpy(patches.values)
        theirs = model.model.get_image_features(pixels, grid([patches]))
        found = ours(patches)
        assert_close(torch.from_numpy(found.tokens), theirs.pooler_output[0])
        assert len(found.additions) == len(images.deepstack)
        for added, (expected,) in zip(found.additions, theirs.deepstack_features, strict=True):
            assert_close(torch.from_numpy(added), expected)


@pytest.mark.parametrize("vision", VISIONS, ids=range(len(VISIONS)))
@torch.inference_mode()
def test_a_text_with_images_has_the_states_of_transformers(
    vision: dict[str, Any], tmp_path: Path
) -> None:
    model = write_model(tmp_path, vision=vision)
    _, images = spec(tmp_path)
    ours, all_images = texts_with_images(tmp_path), [image(images, *each) for each in GRIDS]
    for chosen in (all_images[:1], all_images[1:3], all_images):
        ids = [5, 7, 11]
        for each in chosen:
            ids += [20, *[IMAGE] * (each.rows * each.columns // 4), 21, 22]
        theirs = model.model(**inputs(ids, chosen)).last_hidden_state[0]
        batch = Batch.of([np.array(ids)])
        found = ours.vectors(batch, chosen, ("lasttoken", "mean"))
        assert_close(torch.from_numpy(found[0]), torch.cat([theirs[-1], theirs.mean(0)]))
        assert np.array_equal(found, ours.vectors(batch, chosen, ("lasttoken", "mean")))


def inputs(ids: list[int], images: Sequence[Patches]) -> dict[str, Tensor]:
    row = torch.tensor([ids])
    return {
        "input_ids": row,
        "pixel_values": torch.from_numpy(np.concatenate([each.values for each in images])),
        "image_grid_thw": grid(images),
        "mm_token_type_ids": (row == IMAGE).to(torch.int32),
    }


@pytest.mark.parametrize(
    "changed", [{}, {"patch_size": 8, "temporal_patch_size": 1, "hidden_act": "gelu"}], ids=str
)
@torch.inference_mode()
def test_the_tokens_of_qwen2_vl_are_those_of_transformers(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    model = qwen2_vl.write_model(tmp_path, vision={**qwen2_vl.VISION, **changed})
    _, images = spec(tmp_path)
    ours = ImageTokenEncoder(images, weights.load(tmp_path, images.encoder), LINEAR, CPU)
    for rows, columns in GRIDS:
        patches = image(images, rows, columns)
        pixels = torch.from_numpy(patches.values)
        theirs = model.model.get_image_features(pixels, grid([patches]))
        assert_close(torch.from_numpy(ours(patches).tokens), theirs.pooler_output[0])


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
