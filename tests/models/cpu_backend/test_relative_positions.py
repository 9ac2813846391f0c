"""Scores by the distance of query and key, against the hooks on torch."""

import ctypes

import numpy as np
import pytest
import torch

from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.relative_positions import (
    Distances,
    DistanceScores,
    first_bias,
    padded_buckets,
    position_bias,
    relative_rows,
)
from embedwell_models.positions.schemes import Alibi, Buckets, Disentangled, Rotary, Scheme
from embedwell_models.positions.tables import relative_positions
from embedwell_models.torch_backend.linear_adapters import device_linear
from embedwell_models.torch_backend.position_builder import layer_position_hooks
from embedwell_models.torch_backend.tensors import to_tensors
from embedwell_models.vectors import Floats
from tests.models.shapes import KINDS, deberta, random_weights, shape

LENGTH = 60
XLNET = KINDS["xlnet"]
HEADS, SIZE = XLNET.attention.heads, XLNET.attention.head_size


@pytest.mark.parametrize("scheme", [Alibi(), Alibi(steepest=4.0), Buckets(), Buckets(buckets=8)])
def test_a_bias_equals_torchs(scheme: Scheme) -> None:
    config = shape(hidden=192, heads=6, positions=scheme)
    weights, like = random_weights(config), torch.empty(0)
    hooks = layer_position_hooks(config, to_tensors(weights), "layers.0", config.attention, like)
    bias = position_bias(config, weights)
    assert bias is not None
    for length in (1, 2, 130):
        expected = hooks.bias(length)
        assert expected is not None
        assert np.array_equal(bias(length).astype(np.float32), expected.numpy())


@pytest.mark.parametrize("scheme", [Scheme(), Rotary(dim=32)])
def test_other_schemes_have_none(scheme: Scheme) -> None:
    assert position_bias(shape(positions=scheme), {}) is None


def test_the_heads_of_each_layer_have_rows_of_their_own() -> None:
    config = shape(hidden=192, heads=6, positions=Buckets(shared=False))
    weights, like = random_weights(config), torch.empty(0)
    bias = position_bias(config, weights)
    assert bias is not None
    for index in range(2):
        spec, first = config.attention, first_bias(config, index)
        hooks = layer_position_hooks(config, to_tensors(weights), f"layers.{index}", spec, like)
        expected = hooks.bias(130)
        assert expected is not None
        assert np.array_equal(bias(130)[first : first + 6], expected.numpy())
    assert first_bias(shape(positions=Buckets()), 1) == 0


def buckets(length: int, scheme: Disentangled) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """The buckets that the kernels read, from distance 32 - length on."""
    distances = Distances(length, scheme)
    first = distances.struct.buckets - (length + 32) * 4
    numbers = (ctypes.c_int32 * (2 * (length + 32) + 1)).from_address(first)
    return np.array(numbers, dtype=np.int32)


@pytest.mark.parametrize(
    "different",
    [
        *({}, {"shared": False}, {"buckets": 0}, {"buckets": 0, "max_distance": 9}),
        *({"content_to_position": False}, {"position_to_content": False, "shared": False}),
    ],
)
def test_scores_by_buckets_equal_torchs(different: dict[str, int]) -> None:
    config = deberta(**different)
    scheme, attention, weights = (
        config.attention.positions,
        config.attention,
        random_weights(config),
    )
    assert isinstance(scheme, Disentangled)
    like, linear = torch.empty(0), device_linear(torch.device("cpu"))
    hooks = layer_position_hooks(config, to_tensors(weights), "layers.1", attention, like)
    query, key = torch.randn(2, 1, attention.heads, LENGTH, attention.head_size)
    features = hooks.relative_features(LENGTH)
    distances = relative_positions(np.arange(LENGTH))
    assert features is not None
    index = torch.from_numpy(distances + LENGTH - 1)
    expected = hooks.relative_score(query, key, features, index)
    assert expected is not None
    found, bucket = np.zeros(expected.shape[1:], np.float32), buckets(LENGTH, scheme)
    middle = LENGTH + 32
    keys, queries = (
        relative_rows(config, weights, "layers.1", part, linear) for part in ("key", "query")
    )
    assert (keys is None, queries is None) == (
        not scheme.content_to_position,
        not scheme.position_to_content,
    )
    if keys is not None:
        rows = keys[:, bucket[middle + distances]]
        found += np.einsum("hid,hijd->hij", query[0].numpy(), rows)
    if queries is not None:
        rows = queries[:, bucket[middle - distances]]
        found += np.einsum("hjd,hijd->hij", key[0].numpy(), rows)
    np.testing.assert_allclose(found, expected[0].numpy(), atol=2e-6 * float(expected.abs().max()))


@pytest.mark.parametrize(("span", "rows"), [(15, 32), (16, 64), (256, 544)])
def test_rows_are_whole_columns_of_the_kernels(span: int, rows: int) -> None:
    assert padded_buckets(Disentangled(buckets=span, max_distance=512)) == rows


@pytest.mark.parametrize("length", [1, 130, 700])
@pytest.mark.parametrize("count", [0, 40])
def test_buckets_do_not_decrease_and_lie_in_the_rows(length: int, count: int) -> None:
    scheme = Disentangled(buckets=count, max_distance=90)
    found = buckets(length, scheme)
    assert (np.diff(found) >= 0).all() and found[len(found) // 2] == scheme.span
    assert found[0] >= 0 and found[-1] <= 2 * scheme.span


def scores() -> DistanceScores:
    linear = device_linear(torch.device("cpu"))
    return DistanceScores(XLNET, random_weights(XLNET), "avx2", Packing("float32"), linear)


def unpacked(address: int, rows: int) -> Floats:
    """The vectors of a layer (H, R, Dh) in float32, of panels of 16 rows."""
    numbers = (ctypes.c_float * (HEADS * rows * SIZE)).from_address(address)
    panels = np.array(numbers, dtype=np.float32).reshape(-1, SIZE, 16)
    return panels.transpose(0, 2, 1).reshape(HEADS, rows, SIZE)


@pytest.mark.parametrize("length", [1, 60, 128, 200])
@pytest.mark.parametrize("layer", [0, 1])
def test_scores_by_distances_equal_torchs(length: int, layer: int) -> None:
    weights, like = to_tensors(random_weights(XLNET)), torch.empty(0)
    hooks = layer_position_hooks(XLNET, weights, f"layers.{layer}", XLNET.attention, like)
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
    found = np.einsum("hid,hijd->hij", query[0].numpy(), rows) * XLNET.attention.scale
    found += bias[layer][:, middle + distances]
    wanted = expected[0].numpy() * XLNET.attention.scale
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
