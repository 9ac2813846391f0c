"""Nearest rows and analogies compared with gensim and all scores in double precision."""

from typing import Any

import numpy as np
import pytest
from gensim.models import KeyedVectors

from embedwell_classic.words import neighbors
from embedwell_classic.words.neighbors import NeighborTable, Question
from embedwell_models.checkpoint.tables import BLOCK
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.vectors import METRICS, Floats

COUNT, WIDTH = 2 * BLOCK + 77, 16
WORDS = [f"w{index}" for index in range(COUNT)]


@pytest.fixture(scope="module")
def table() -> Floats:
    rows = np.random.default_rng(1).normal(0, 0.3, (COUNT, WIDTH)).astype(np.float32)
    rows *= np.random.default_rng(2).uniform(0.1, 3, (COUNT, 1)).astype(np.float32)
    rows[7] = 0
    return rows


@pytest.fixture(scope="module")
def gensim(table: Floats) -> Any:
    vectors = KeyedVectors(WIDTH)
    rows = table.copy()
    rows[7] = 1e-12  # gensim divides by the length
    vectors.add_vectors(WORDS, rows)
    return vectors


def search(table: Floats, question: Question, k: int) -> list[list[tuple[int, float]]]:
    return run_to_completion(NeighborTable(table, str).nearest(question, k))


def assert_equal(actual: list[tuple[int, float]], expected: list[tuple[str, float]]) -> None:
    assert [WORDS[row] for row, _ in actual] == [word for word, _ in expected]
    scores = [score for _, score in actual]
    np.testing.assert_allclose(scores, [score for _, score in expected], atol=1e-5)


def test_neighbours_equal_gensims_without_the_word_itself(table: Floats, gensim: Any) -> None:
    rows = [3, BLOCK, COUNT - 1]
    question = neighbors.by_metric("cosine", table[rows], [{row} for row in rows])
    for row, actual in zip(rows, search(table, question, 20), strict=True):
        assert_equal(actual, gensim.most_similar(WORDS[row], topn=20))


@pytest.mark.parametrize(("positive", "negative"), [([3, 9], [5]), ([4], []), ([3, 4, 8], [1, 2])])
def test_analogies_equal_gensims(
    table: Floats, gensim: Any, positive: list[int], negative: list[int]
) -> None:
    vectors, own = (table[positive], table[negative]), {*positive, *negative}
    words = [[WORDS[row] for row in rows] for rows in (positive, negative)]
    (actual,) = search(table, neighbors.add_analogy(*vectors, own), 10)
    assert_equal(actual, gensim.most_similar(*words, topn=10))
    (actual,) = search(table, neighbors.multiply_analogy(*vectors, own), 10)
    with pytest.warns(DeprecationWarning, match="init_sims"):  # which gensim itself calls
        expected = gensim.most_similar_cosmul(*words, topn=10)
    assert_equal(actual, expected)


def test_the_word_that_does_not_match_is_gensims(table: Floats, gensim: Any) -> None:
    noise = np.random.default_rng(5)
    for _ in range(20):
        rows = noise.choice(np.arange(10, COUNT), 5, replace=False)
        scores = neighbors.doesnt_match(table[rows])
        assert WORDS[rows[scores.argmin()]] == gensim.doesnt_match([WORDS[row] for row in rows])
        ranked = gensim.rank_by_centrality([WORDS[row] for row in rows])
        expected = {word: score for score, word in ranked}
        np.testing.assert_allclose(scores, [expected[WORDS[row]] for row in rows], atol=1e-6)


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("count", [1, 50, COUNT])
def test_the_nearest_rows_are_the_first_of_all_scores(
    table: Floats, metric: str, count: int
) -> None:
    rows, k = table[:count], 30
    questions = np.random.default_rng(3).normal(0, 0.3, (3, WIDTH)).astype(np.float32)
    actual = search(rows, neighbors.by_metric(metric, questions, [set(), {0}, {0, 1}]), k)
    scores = METRICS[metric](questions, rows)
    for index, excluded in enumerate([[], [0], [0, 1]]):
        left = [row for row in np.argsort(-scores[index], kind="stable") if row not in excluded][:k]
        assert actual[index] == [(row, scores[index][row]) for row in left]


def test_equal_rows_have_equal_scores_in_their_order(table: Floats) -> None:
    rows = np.tile(table[11], (BLOCK + 5, 1))
    (actual,) = search(rows, neighbors.by_metric("cosine", table[3:4], [{1}]), 4)
    assert [row for row, _ in actual] == sorted(row for row, _ in actual)
    assert len({score for _, score in actual}) == 1


def test_a_question_with_every_row_excluded_has_no_neighbours(table: Floats) -> None:
    assert search(table[:2], neighbors.by_metric("dot", table[:1], [{0, 1}]), 5) == [[]]


def test_many_rows_may_be_left_out(table: Floats) -> None:
    rows = table[:BLOCK]
    order = np.argsort(-METRICS["cosine"](table[3:4], rows)[0], kind="stable")
    question = neighbors.by_metric("cosine", table[3:4], [{*order[:200].tolist()}])
    assert [row for row, _ in search(rows, question, 5)[0]] == order[200:205].tolist()


def test_rows_that_float32_would_confuse_are_in_their_order() -> None:
    noise = np.random.default_rng(6)
    rows = noise.normal(-9, 1, (500, 40)).astype(np.float32)
    close = noise.permutation(500)[:30]
    rows[close] = noise.normal(0, 1e4, (30, 40))
    rows[close, 39] -= rows[close].astype(np.float64).sum(axis=1).astype(np.float32)  # now near 0
    question = np.ones((1, 40), dtype=np.float32)
    (actual,) = search(rows, neighbors.by_metric("dot", question, [set()]), 1)
    scores = rows.astype(np.float64).sum(axis=1)
    assert actual[0][0] == scores.argmax()


def test_a_search_pauses_after_each_block_and_each_list(table: Floats) -> None:
    searched = NeighborTable(table, str)
    question = neighbors.by_metric("cosine", table[:5], [set()] * 5)
    assert len([*searched.nearest(question, 10)]) == 3 + 3 + 5, "the first one reads lengths, too"
    assert len([*searched.nearest(question, 10)]) == 3 + 5
