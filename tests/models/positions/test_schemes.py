"""Tests of what the schemes know of themselves."""

import pytest

from embedwell_models.positions.schemes import Disentangled


@pytest.mark.parametrize(("buckets", "span"), [(0, 512), (256, 256)])
def test_deberta_tells_distances_apart_up_to_its_buckets_or_without_them_to_the_furthest(
    buckets: int, span: int
) -> None:
    assert Disentangled(buckets=buckets, max_distance=512).span == span
