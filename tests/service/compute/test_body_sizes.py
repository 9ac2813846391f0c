"""The tokens of a body that has not been read are estimated from those of recent bodies."""

import pytest

from embedwell.compute.admission import BodySizes


def test_nothing_is_known_before_the_first_body() -> None:
    bodies = BodySizes()
    bodies.observe(0, 100)  # in chunks, or compressed
    bodies.observe(1000, 0)  # nothing to compute
    assert bodies.estimate(10_000) == (1, 1)


def test_the_estimate_is_between_the_fewest_and_the_most_tokens_of_recent_bodies() -> None:
    bodies = BodySizes()
    for tokens in (200, 250, 100, 240):
        bodies.observe(1000, tokens)
    fewest, most = bodies.estimate(10_000)
    assert fewest == pytest.approx(1000, rel=0.05) and most == pytest.approx(2500, rel=0.05)


def test_a_small_body_may_have_any_number_of_tokens_up_to_the_most() -> None:
    bodies = BodySizes()
    bodies.observe(1000, 200)
    bodies.observe(50, 5)  # mostly other fields, which a list of texts has only once
    assert bodies.estimate(100) == (1, 19)
    assert bodies.estimate(1000) == (200, 198)


def test_an_unusual_body_is_forgotten_after_some_hundred_others() -> None:
    bodies = BodySizes()
    for tokens in (1, 1000, *[200] * 600):
        bodies.observe(1000, tokens)
    assert bodies.estimate(1000) == (200, 200)


def test_a_body_of_512_bytes_counts_and_none_has_less_than_a_token() -> None:
    bodies = BodySizes()
    bodies.observe(512, 100)
    assert bodies.estimate(512) == (100, 100)
    bodies = BodySizes()
    bodies.observe(1024, 1)
    assert bodies.estimate(600) == (1, 1)
