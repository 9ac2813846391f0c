"""Scores of tasks: the texts that are embedded, variants of vectors, and baselines."""

from collections.abc import Sequence

import click
import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer  # type: ignore[import-untyped]

from embedwell.routes.common.response_body import OutputType
from embedwell_lab.evaluate import BASELINES as OFFERED
from embedwell_lab.evaluation.retrieval import Retrieval
from embedwell_lab.evaluation.scoring import (
    BASELINE_DIMENSIONS,
    BASELINES,
    Variant,
    baseline,
    score,
    variants,
)
from embedwell_lab.evaluation.tasks import Similarity
from embedwell_models.read.prompts import Role
from embedwell_models.vectors import Floats, normalize

pytestmark = pytest.mark.full

PAIRS = Similarity("pairs", ["a", "b", "a"], ["b", "a", "c"], [1, 2, 3])
SEARCH = Retrieval("search", {"d": "a", "e": "b"}, {"q": "a"}, {"q": {"d": 1}})


class Letters:
    """Embeds a letter as its own axis, and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], Role | None]] = []

    def embed(self, texts: Sequence[str], role: Role | None) -> Floats:
        self.calls.append((list(texts), role))
        vectors = np.eye(8, dtype=np.float32)[["abcdefgh".index(text) for text in texts]]
        return vectors + np.float32(0.1) * np.arange(8, dtype=np.float32)


def test_a_text_is_embedded_once_for_each_role() -> None:
    letters = Letters()
    results = list(score([PAIRS, PAIRS, SEARCH], letters.embed, "float32", [4, 8], ["int8"]))
    assert letters.calls == [
        (["a", "b", "c"], None),
        (["a"], "query"),
        (["a", "b"], "document"),
    ]
    assert [(result.task, result.variant.dimensions) for result in results] == [
        ("pairs", 4),
        ("pairs", 8),
        ("pairs", 4),
        ("pairs", 8),
        ("search", 4),
        ("search", 8),
    ]


def test_each_side_has_the_vectors_of_its_texts() -> None:
    (result,) = score([SEARCH], Letters().embed, "int8")
    assert result.main == ("ndcg@10", 100.0)
    other = Retrieval("search", SEARCH.documents, SEARCH.queries, {"q": {"e": 1}})
    (result,) = score([other], Letters().embed, "int8")
    assert 0 < result.main[1] < 100


def test_more_dimensions_than_there_are_is_refused() -> None:
    with pytest.raises(click.ClickException, match="9 dimensions were requested"):
        list(score([PAIRS], Letters().embed, "float32", [4, 9]))


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
    vectors = baseline(name)(TEXTS, None)
    counts = CountVectorizer(**options).fit_transform(TEXTS).toarray()
    assert vectors.shape == (len(TEXTS), BASELINE_DIMENSIONS) and vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors @ vectors.T, counts @ counts.T)


def test_a_text_has_the_same_vector_among_others() -> None:
    embed = baseline("n-grams")
    np.testing.assert_array_equal(embed(TEXTS, None)[1], embed(TEXTS[1:2], None)[0])


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
