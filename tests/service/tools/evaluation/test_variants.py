"""Smaller forms of vectors."""

import numpy as np
import pytest

from embedwell.routes.common.response_body import OutputType
from embedwell.tools.evaluation.variants import Variant, variants
from embedwell_models.vectors import normalize

pytestmark = pytest.mark.full

VECTORS = np.random.default_rng(0).normal(size=(6, 40)).astype(np.float32)


@pytest.mark.parametrize(
    ("output_type", "size"),
    [("float32", 160), ("float16", 80), ("int8", 40), ("uint8", 40), ("binary", 5), ("ubinary", 5)],
)
def test_bytes_are_those_of_a_stored_vector(output_type: OutputType, size: int) -> None:
    (variant,) = variants(40, (), [output_type])
    assert variant.num_bytes == size
    assert Variant(12, "binary").num_bytes == 2


def test_every_pair_of_dimensions_and_types_is_a_variant() -> None:
    assert variants(40, [], []) == [Variant(40, "float32")]
    assert variants(40, [8, 16], ["int8", "binary"]) == [
        Variant(8, "int8"),
        Variant(8, "binary"),
        Variant(16, "int8"),
        Variant(16, "binary"),
    ]


def test_numbers_keep_their_directions() -> None:
    exact = normalize(VECTORS[:, :24])
    errors: dict[OutputType, float] = {
        "float32": 1e-6,
        "float16": 1e-3,
        "int8": 5e-3,
        "uint8": 5e-3,
    }
    for name, error in errors.items():
        (variant,) = variants(40, [24], [name])
        np.testing.assert_allclose(normalize(variant.apply(VECTORS)), exact, atol=error)


@pytest.mark.parametrize("name", ["binary", "ubinary"])
def test_the_cosine_of_bits_orders_as_the_hamming_distance(name: OutputType) -> None:
    (variant,) = variants(40, [20], [name])
    signs = variant.apply(VECTORS)
    differ = (VECTORS[:, None, :20] > 0) != (VECTORS[None, :, :20] > 0)
    np.testing.assert_array_equal(signs @ signs.T, 20 - 2 * differ.sum(axis=2))
