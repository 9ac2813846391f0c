"""Parity with a reference."""

import click
import numpy as np
import pytest

from embedwell_lab.evaluation.parity import compare

pytestmark = pytest.mark.full

REFERENCE = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]], dtype=np.float32)
TEXTS = ["a", "b", "c"]


def test_equal_vectors_are_right() -> None:
    parity = compare(TEXTS, REFERENCE.copy(), REFERENCE)
    assert (parity.num_texts, parity.least_cosine, parity.mean_cosine) == (3, 1.0, 1.0)
    assert parity.largest_difference == parity.largest_length_difference == 0
    assert parity.problem(1.0) is None


def test_the_text_with_the_least_cosine_is_named() -> None:
    vectors = REFERENCE.copy()
    vectors[1] = (1.2, 1.6)
    parity = compare(TEXTS, vectors, REFERENCE)
    assert parity.least_cosine == pytest.approx(0.8)
    assert parity.mean_cosine == pytest.approx(2.8 / 3)
    assert parity.largest_difference == pytest.approx(1.2)
    assert parity.problem(0.79) is None
    problem = parity.problem(0.81)
    assert problem is not None and "'b'" in problem


def test_a_length_that_differs_is_wrong_though_the_direction_is_right() -> None:
    parity = compare(TEXTS, REFERENCE / np.float32(5), REFERENCE)
    assert parity.least_cosine == pytest.approx(1)
    assert parity.largest_length_difference == pytest.approx(0.8)
    problem = parity.problem(0.99)
    assert problem is not None and "lengths differ" in problem


def test_a_vector_that_is_no_number_is_wrong() -> None:
    vectors = REFERENCE.copy()
    vectors[2, 0] = np.nan
    assert compare(TEXTS, vectors, REFERENCE).problem(-1) is not None


def test_other_dimensions_are_another_model() -> None:
    with pytest.raises(click.ClickException, match="have 1 dimensions, but the reference has 2"):
        compare(TEXTS, REFERENCE[:, :1], REFERENCE)
