"""8-bit floating-point numbers."""

import numpy as np
import pytest
import torch

from embedwell.errors import NotFinite
from embedwell.routes.common.float8 import Float8Type, float8_values, to_float8
from embedwell.routes.common.response_body import binary_values

TYPES: dict[Float8Type, torch.dtype] = {
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}


@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_are_rounded_as_torch_does(dtype: Float8Type) -> None:
    exact = float8_values(dtype)
    middles = (exact[:-1] + exact[1:]) / 2
    near = np.concatenate([np.nextafter(middles, np.float32(side)) for side in (0, np.inf)])
    random = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    values = np.concatenate([exact, middles, near, random])
    values = np.concatenate([values, -values])
    expected = torch.from_numpy(values).to(TYPES[dtype]).view(torch.uint8).numpy()
    np.testing.assert_array_equal(to_float8(values, dtype), expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_number_above_the_greatest_is_an_error(dtype: Float8Type) -> None:
    vectors = np.array([[1], [2 * float8_values(dtype)[-1]]], np.float32)
    with pytest.raises(NotFinite, match=f"input 1 .* limit of {dtype}"):
        binary_values(vectors, dtype, big_endian=False)
