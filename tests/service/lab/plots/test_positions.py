"""Heat maps of position encodings."""

from typing import Any

import click
import numpy as np
import pytest

from embedwell.compute.position_encoding import compute_tables
from embedwell.routes.positions import PositionsRequest
from embedwell_lab.plots import positions
from embedwell_lab.plots.heatmap import Panel
from embedwell_models.config.encoder_config import plain_config
from embedwell_models.positions.schemes import Learned

CONFIG = plain_config(
    family="bert",
    vocab_size=10,
    hidden_size=48,
    num_layers=2,
    num_heads=4,
    intermediate_size=80,
    max_positions=64,
    norm_eps=1e-5,
    input_positions=Learned(),
)


def encode(**options: Any) -> dict[str, Any]:
    encoding = PositionsRequest(**options).encoding(CONFIG)
    tables = compute_tables(encoding)
    return {"scheme": encoding.name, "parameters": encoding.parameters, **tables}


def panels(**options: Any) -> list[Panel]:
    return positions.panels(encode(**options))


def test_rotary_has_angles_and_cosines_of_each_pair() -> None:
    angle, cosine = panels(scheme="rotary", count=8, dim=6)
    turns = np.degrees(np.arange(8)[:, None] * 10_000.0 ** (-np.arange(3) / 3))
    np.testing.assert_allclose(angle.values, (turns + 180) % 360 - 180, atol=1e-4)
    np.testing.assert_allclose(cosine.values, np.cos(np.radians(turns)), atol=1e-6)


def test_alibi_has_a_panel_of_each_head_on_one_scale() -> None:
    first, second = panels(scheme="alibi", heads=2, count=3, causal=True)
    assert (first.title, second.title) == ("Head 1, slope 0.0625", "Head 2, slope 0.00391")
    assert first.norm is second.norm and first.norm.vmax == 0
    np.testing.assert_allclose(
        first.values, [[0, np.nan, np.nan], [-0.0625, 0, np.nan], [-0.125, -0.0625, 0]]
    )


def test_of_many_heads_some_are_drawn_evenly() -> None:
    titles = [panel.title.split(",")[0] for panel in panels(scheme="alibi", heads=31, count=3)]
    assert titles == [f"Head {number}" for number in range(1, 32, 2)]


def test_relative_has_buckets() -> None:
    (panel,) = panels(scheme="relative", count=4)
    np.testing.assert_array_equal(panel.values[0], [0, 17, 18, 19])
    assert (panel.rows, panel.columns) == ("query", "key")


def test_trained_biases_are_on_a_scale_around_zero() -> None:
    bias = np.array([[[0.5, -2.0]], [[0.0, 1.0]]])
    encoding = {"scheme": "relative", "parameters": {}, "buckets": np.zeros((1, 2)), "bias": bias}
    first, second = positions.panels(encoding)
    assert (first.title, second.title) == ("Head 1", "Head 2")
    assert first.norm is second.norm and (first.norm.vmin, first.norm.vmax) == (-2, 2)
    assert positions.title(encoding, "t5-small") == "relative of t5-small"


def test_sinusoids_have_vectors_and_their_cosines() -> None:
    vectors, cosines = panels(scheme="sinusoidal", count=5, dim=4)
    assert vectors.values.shape == (5, 4) and cosines.values.shape == (5, 5)
    np.testing.assert_allclose(np.diag(cosines.values), 1, atol=1e-6)


def test_a_few_large_values_are_clipped() -> None:
    table = np.full((50, 20), 0.1, np.float32)
    table[0, 0] = 9
    encoding = {"scheme": "learned", "parameters": {}, "vectors": table}
    assert positions.panels(encoding)[0].norm.vmax == pytest.approx(0.1)
    assert positions.title(encoding, "a-model") == "learned of a-model"


def test_transformer_xl_has_a_row_for_each_distance() -> None:
    (panel,) = panels(scheme="transformer_xl", count=3, dim=4)
    assert panel.values.shape == (5, 4) and panel.first_row == -2


def test_disentangled_buckets_are_below_and_above_zero() -> None:
    (panel,) = panels(scheme="disentangled", count=4)
    assert (panel.values.min(), panel.values[3, 0]) == (-3, 3)


def test_the_title_has_the_parameters() -> None:
    encoding = encode(scheme="rotary", dim=6, interleaved=True)
    title = positions.title(encoding, "a-model")
    assert title == "rotary, dim 6, base 10000, interleaved yes, scaling default"


def test_no_scheme_has_no_picture() -> None:
    with pytest.raises(click.ClickException, match="choose another with --scheme"):
        panels(scheme="none")
