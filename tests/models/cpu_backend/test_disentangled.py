"""Tests of the vectors of relative positions against the hooks on torch."""

import ctypes

import numpy as np
import pytest
import torch

from embedwell_models.cpu_backend.disentangled import Distances, padded_buckets, relative_rows
from embedwell_models.positions.schemes import Disentangled
from embedwell_models.positions.tables import relative_positions
from embedwell_models.torch_backend.array_linear import device_linear
from embedwell_models.torch_backend.position_tensors import layer_position_hooks
from embedwell_models.torch_backend.tensors import to_tensors
from tests.models.shapes import deberta, random_weights

LENGTH = 60


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
def test_scores_equal_torchs(different: dict[str, int]) -> None:
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
