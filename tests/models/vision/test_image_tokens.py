"""Tests of images as tokens of a text, on the kernels and on torch, against transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from embedwell_models.cpu_backend import library
from tests.models import qwen2_vl, qwen3_vl
from tests.models.families.checkpoint import assert_close
from tests.models.families.compiled import skip_without_kernels
from tests.models.families.exact import exactly
from tests.models.image_tokens import (
    GRIDS,
    OF_QWEN2,
    OF_QWEN2_5,
    OF_QWEN3,
    encoders,
    grid,
    image,
    read,
)
from tests.models.threads import use_threads

LARGE = (26, 18)


@exactly
def tokens(model: Any, pixels: Tensor, sizes: Tensor) -> Tensor:
    """The tokens of an image by transformers, then what is added."""
    found = model.model.get_image_features(pixels, sizes)
    added = [each for (each,) in getattr(found, "deepstack_features", ())]
    return torch.cat([*found.pooler_output, *added])


def check(model: Any, folder: Path, count: int) -> None:
    """Compare the tokens of images with those of transformers. count: of the encoders."""
    spec, ours = read(folder), encoders(folder)
    assert len(ours) == (count if library.best_isa("float32") else 1)
    for rows, columns in (*GRIDS, LARGE):
        patches = image(spec, rows, columns)
        expected = tokens(model, torch.from_numpy(patches.values), grid([patches]))
        for encoder in ours:
            found = encoder(patches)
            every = np.concatenate([found.tokens, *found.additions])
            assert_close(torch.from_numpy(every), expected)


@pytest.mark.parametrize("place", range(len(OF_QWEN3)))
def test_the_tokens_of_qwen3_vl_are_those_of_transformers(place: int, tmp_path: Path) -> None:
    vision = {**qwen3_vl.VISION, **OF_QWEN3[place]}
    check(qwen3_vl.write_model(tmp_path, vision=vision), tmp_path, 1 + (place > 0))


@pytest.mark.parametrize("place", range(len(OF_QWEN2)))
def test_the_tokens_of_qwen2_vl_are_those_of_transformers(place: int, tmp_path: Path) -> None:
    vision = {**qwen2_vl.VISION, **OF_QWEN2[place]}
    check(qwen2_vl.write_model(tmp_path, vision=vision), tmp_path, 1 + (place > 0))


@pytest.mark.parametrize("place", range(len(OF_QWEN2_5)))
def test_the_tokens_of_qwen2_5_vl_are_those_of_transformers(place: int, tmp_path: Path) -> None:
    vision = {**qwen2_vl.VISION_2_5, **OF_QWEN2_5[place]}
    model = qwen2_vl.write_model(tmp_path, model_type="qwen2_5_vl", vision=vision)
    check(model, tmp_path, 1 + (place > 0))


def write_windows(folder: Path) -> None:
    vision = {**qwen2_vl.VISION_2_5, **OF_QWEN2_5[3], "fullatt_block_indexes": [1]}
    qwen2_vl.write_model(folder, model_type="qwen2_5_vl", vision=vision)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_image_has_the_same_bits_on_any_threads(dtype: str, tmp_path: Path) -> None:
    skip_without_kernels(dtype)
    write_windows(tmp_path)
    encoder, patches = encoders(tmp_path, dtype)[1], image(read(tmp_path), *LARGE)
    expected = encoder(patches).tokens
    for threads in (1, 3):
        with use_threads(threads):
            assert np.array_equal(encoder(patches).tokens, expected)


def test_bfloat16_is_as_close_to_float32_as_on_torch(tmp_path: Path) -> None:
    skip_without_kernels("bfloat16")
    write_windows(tmp_path)
    patches = image(read(tmp_path), *LARGE)
    exact = encoders(tmp_path)[1](patches).tokens
    rounded = [encoder(patches).tokens for encoder in encoders(tmp_path, "bfloat16")]
    on_torch, ours = (float(np.linalg.norm(each - exact)) for each in rounded)
    assert 0 < ours < 1.5 * on_torch
