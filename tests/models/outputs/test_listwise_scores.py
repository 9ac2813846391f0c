"""Scores of a listwise reranker from the vectors of its blocks."""

import numpy as np

from embedwell_models.outputs.listwise_scores import listwise_scores
from embedwell_models.vectors import Floats


def block(*rows: tuple[float, float]) -> Floats:
    return np.array(rows, dtype=np.float32)


def test_the_scores_of_one_block_are_cosines_with_its_query() -> None:
    scores = listwise_scores([block((2, 0), (0, 3), (-1, 0), (5, 0))])
    np.testing.assert_array_equal(scores, [1, 0, -1])


def test_a_block_weighs_by_its_best_score() -> None:
    # The best scores are 1 and 0, so the weights are 1 and 1/2.
    first, second = block((-1, 0), (1, 0), (1, 0)), block((1, 0), (-1, 0), (0, 1))
    expected = 1 / np.hypot(1, 0.5) * np.array([-1, 1, 1, -1])
    np.testing.assert_allclose(listwise_scores([first, second]), expected, atol=1e-6)


def test_documents_opposite_to_the_query_have_scores() -> None:
    assert listwise_scores([block((-1, 0), (1, 0))]).tolist() == [-1]
