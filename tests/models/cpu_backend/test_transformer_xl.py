"""Tests of scores with distances against the hooks on torch."""

import ctypes

import numpy as np
import pytest
import torch

from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.transformer_xl import DistanceScores
from embedwell_models.positions.tables import relative_positions
from embedwell_models.torch_backend.array_linear import device_linear
from embedwell_models.torch_backend.position_tensors import layer_position_hooks
from embedwell_models.torch_backend.tensors import to_tensors
from embedwell_models.vectors import Floats
from tests.models.shapes import KINDS, random_weights

CONFIG = KINDS["xlnet"]
HEADS, SIZE = CONFIG.attention.heads, CONFIG.attention.head_size


def scores() -> DistanceScores:
    linear = device_linear(torch.device("cpu"))
    return DistanceScores(CONFIG, random_weights(CONFIG), "avx2", Packing("float32"), linear)


def unpacked(address: int, rows: int) -> Floats:
    """The vectors of a layer (H, R, Dh) in float32, of panels of 16 rows."""
    numbers = (ctypes.c_float * (HEADS * rows * SIZE)).from_address(address)
    panels = np.array(numbers, dtype=np.float32).reshape(-1, SIZE, 16)
    return panels.transpose(0, 2, 1).reshape(HEADS, rows, SIZE)


@pytest.mark.parametrize("length", [1, 60, 128, 200])
@pytest.mark.parametrize("layer", [0, 1])
def test_scores_equal_torchs(length: int, layer: int) -> None:
    weights, like = to_tensors(random_weights(CONFIG)), torch.empty(0)
    hooks = layer_position_hooks(CONFIG, weights, f"layers.{layer}", CONFIG.attention, like)
    noise = torch.Generator().manual_seed(length)
    query, key = torch.randn(2, 1, HEADS, length, SIZE, generator=noise)
    distances, features = relative_positions(np.arange(length)), hooks.relative_features(length)
    assert features is not None
    index = torch.from_numpy(distances + length - 1)
    expected = hooks.relative_score(query, key, features, index)
    assert expected is not None

    tables = scores().tables(length)
    middle = tables.length - 1
    rows = unpacked(tables.keys[layer], tables.rows)[:, middle + distances]
    bias = tables.bias[: 2 * HEADS * (2 * tables.length - 1)].reshape(2, HEADS, -1)
    found = np.einsum("hid,hijd->hij", query[0].numpy(), rows) * CONFIG.attention.scale
    found += bias[layer][:, middle + distances]
    wanted = expected[0].numpy() * CONFIG.attention.scale
    np.testing.assert_allclose(found, wanted, atol=3e-6 * max(1.0, float(np.abs(wanted).max())))


def test_tables_for_usual_texts_are_kept() -> None:
    found = scores()
    short, usual, long = (found.tables(length) for length in (100, 500, 600))
    assert [each.length for each in (short, usual, long)] == [128, 512, 1024]
    assert found.tables(100) is usual and found.tables(600) is not long


def test_a_table_of_longer_texts_has_the_same_bits() -> None:
    found = scores()
    short, long = (found.tables(length) for length in (100, 300))
    for a, b in zip(short.keys, long.keys, strict=True):
        rows, more = unpacked(a, short.rows), unpacked(b, long.rows)
        assert np.array_equal(rows[:, :255], more[:, 384:639])
