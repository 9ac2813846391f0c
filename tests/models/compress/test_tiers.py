"""Tiers are projections of bands of rows, by their definition."""

import numpy as np
import pytest

from embedwell_models.compress.tiers import Band, as_parts, parse_bands, split_rows
from embedwell_models.errors import ModelError
from embedwell_models.tables import stored
from embedwell_models.vectors import Floats
from tests.models.word_files import vectors

TABLE = vectors(300, 12) * np.linspace(0.1, 2, 12, dtype=np.float32)


def decoded(text: str) -> Floats:
    """Split rows into tiers and decode them."""
    rows: Floats = stored.build(as_parts(split_rows(TABLE, parse_bands(text))))[:]
    return rows


def test_a_band_is_projected_to_its_own_first_singular_vectors() -> None:
    actual = decoded("100:12,150:5,rest:2")
    np.testing.assert_array_equal(actual[:100], TABLE[:100])
    for rows, dimensions in ((slice(100, 250), 5), (slice(250, 300), 2)):
        band = TABLE[rows].astype(np.float64)
        first = np.linalg.svd(band, full_matrices=False)[2][:dimensions]
        coordinates = np.linalg.lstsq(first.T, band.T, rcond=None)[0]
        np.testing.assert_allclose(actual[rows], (first.T @ coordinates).T, atol=1e-5)


def test_more_dimensions_lose_less() -> None:
    losses = [np.square(decoded(f"50:9,rest:{size}") - TABLE).sum() for size in (2, 4, 8, 11)]
    assert losses == sorted(losses, reverse=True)


def test_bands_after_the_last_row_are_left_out() -> None:
    tiers = split_rows(TABLE, parse_bands("200:12,200:3,rest:1"))
    assert [tier.values.shape for tier in tiers] == [(200, 12), (100, 3)]


def test_a_row_is_the_same_bits_whatever_is_read_with_it() -> None:
    table = stored.build(as_parts(split_rows(TABLE, parse_bands("20:12,60:11,rest:7"))))
    everything, shuffled = table[:], np.random.default_rng(0).permutation(len(TABLE))
    for size in (1, 2, 7, 64, 300):
        chosen = shuffled[:size]
        assert table[chosen].tobytes() == everything[chosen].tobytes()
    assert table[15:95].tobytes() == everything[15:95].tobytes()


@pytest.mark.parametrize(
    "text", ["20:12", "rest:2,20:3", "a:3,rest:1", "20,rest:2", "", "0:2,rest:1"]
)
def test_other_texts_are_no_bands(text: str) -> None:
    with pytest.raises(ModelError, match="is not a list of tiers: write 20000:300"):
        parse_bands(text)
    assert parse_bands("20:12, rest:2") == [Band(20, 12), Band(None, 2)]


def test_more_dimensions_than_the_table_has_are_refused() -> None:
    with pytest.raises(ModelError, match="13 dimensions are not possible; the table has 12"):
        decoded("10:13,rest:2")
