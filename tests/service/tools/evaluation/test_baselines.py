"""Vectors without a model."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer  # type: ignore[import-untyped]

from embedwell.tools.evaluate import BASELINES as OFFERED
from embedwell.tools.evaluation.baselines import BASELINES, DIMENSIONS, Baseline

TEXTS = ["the cat saw the dog", "A dog!", "the the", ""]


def test_the_command_offers_all() -> None:
    assert OFFERED == BASELINES


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("one-hot", {"binary": True}),
        ("bag-of-words", {}),
        ("n-grams", {"analyzer": "char_wb", "ngram_range": (3, 5)}),
    ],
)
def test_products_are_those_of_counts_by_a_vocabulary(name: str, options: dict[str, bool]) -> None:
    vectors = Baseline(name).embed(TEXTS)
    counts = CountVectorizer(**options).fit_transform(TEXTS).toarray()
    assert vectors.shape == (len(TEXTS), DIMENSIONS) and vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors @ vectors.T, counts @ counts.T)


def test_a_text_has_the_same_vector_among_others() -> None:
    baseline = Baseline("n-grams")
    np.testing.assert_array_equal(baseline.embed(TEXTS)[1], baseline.embed(TEXTS[1:2])[0])
