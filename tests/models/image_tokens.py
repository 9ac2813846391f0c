"""Images as tokens of a text: random patches, and their encoders on torch and in the kernels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from embedwell_models import families
from embedwell_models.cpu_backend import library
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.device import Device
from embedwell_models.errors import ModelError
from embedwell_models.loading.backends import why_torch_by_headers
from embedwell_vision import image_weights
from embedwell_vision.image_tokens import KernelImageTokenEncoder
from embedwell_vision.images.patches import Patches
from embedwell_vision.specs import ImageTokenSpec
from embedwell_vision.texts_with_images import ImageTokenEncoder
from embedwell_vision.torch_backend.image_tokens import load as load_on_torch

CPU = Device("cpu")
GRIDS = [(2, 2), (4, 6), (2, 16), (10, 4)]
OF_QWEN3: list[dict[str, Any]] = [  # changes of the usual sizes
    {"hidden_size": 32},  # which the kernels do not know
    {},
    {"depth": 4, "deepstack_visual_indexes": [2, 0], "num_heads": 1},
    {"deepstack_visual_indexes": [], "num_position_embeddings": 81},
    {"patch_size": 8, "temporal_patch_size": 1, "hidden_act": "gelu"},
    {"hidden_size": 576, "num_heads": 8},  # heads of 72
]
OF_QWEN2: list[dict[str, Any]] = [
    {"embed_dim": 32},
    {},
    {"patch_size": 8, "temporal_patch_size": 1, "hidden_act": "gelu"},
    {"embed_dim": 320, "num_heads": 4},  # heads of 80
]
OF_QWEN2_5: list[dict[str, Any]] = [
    {"hidden_size": 32},
    {},
    {"depth": 5, "fullatt_block_indexes": [0, 3, 4], "window_size": 112},
    {"hidden_size": 320, "num_heads": 4, "fullatt_block_indexes": []},
]


def read(folder: Path) -> ImageTokenSpec:
    images = families.read(folder).image_tokens
    assert isinstance(images, ImageTokenSpec)
    return images


def image(images: ImageTokenSpec, rows: int, columns: int) -> Patches:
    """Random patches."""
    width = 3 * images.frames * images.patch_size**2
    noise = np.random.default_rng(rows * 100 + columns)
    return Patches(noise.normal(size=(rows * columns, width)).astype(np.float32), rows, columns)


def grid(images: Sequence[Patches]) -> Tensor:
    return torch.tensor([[1, each.rows, each.columns] for each in images])


def encoders(folder: Path, dtype: str = "float32") -> list[ImageTokenEncoder]:
    """The encoder on torch, and that in the kernels if they compute it."""
    images, features = read(folder), library.features("auto")
    tensors = image_weights.load(folder, images)
    found: list[ImageTokenEncoder] = [load_on_torch(images, tensors, CPU, dtype, features)]
    if why_torch_by_headers(images.encoder, folder, CPU, features) is None:
        found.append(KernelImageTokenEncoder(images, tensors, dtype, features))
    return found


def assert_close_in_other_precisions(
    folder: Path, contents: Sequence[Sequence[str | bytes]], isa: str
) -> None:
    """Assert that vectors in each precision are close to those in float32, and alike alone."""
    exact = Embedder.load(folder, device="cpu", dtype="float32").embed_contents(contents)
    for dtype in ("float32", "bfloat16", "int8"):
        try:
            embedder = Embedder.load(folder, device="cpu", dtype=dtype, isa=isa)
        except ModelError:
            assert dtype != "float32", "every processor computes in float32"
            continue
        found = embedder.embed_contents(contents)
        assert (found * exact).sum(1).min() > 0.98
        for parts, vector in zip(contents, found, strict=True):
            assert np.array_equal(embedder.embed_contents([parts])[0], vector)
