"""The factories of linear layers for heads, on random arrays."""

import numpy as np
import pytest

from embedwell_models.cpu_backend import library
from embedwell_models.encoder.encoder import LinearFactory
from embedwell_models.loading.backends import HostLinearFactory
from embedwell_models.vectors import Floats

FACTORIES: dict[str, LinearFactory] = {
    "kernels": HostLinearFactory(library.features()),
    "torch": HostLinearFactory(frozenset()),
}
every_factory = pytest.mark.parametrize("linear", FACTORIES.values(), ids=FACTORIES)


def numbers(*shape: int, seed: int = 1, scale: float = 0.3) -> Floats:
    noise = np.random.default_rng(seed)
    return (scale * noise.standard_normal(shape)).astype(np.float32)


def assert_equal(found: Floats, expected: Floats) -> None:
    """Compare to 1e-6 of the largest number."""
    assert found.dtype == np.float32
    limit = 1e-6 * float(np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=limit)
